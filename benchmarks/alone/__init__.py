"""What runs of code of others show by themselves: public code with a known mistake, completed so that it runs here."""
