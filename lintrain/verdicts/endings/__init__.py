"""Why a script ended with an error: kinds of errors with their causes, and the function that decides between them."""
