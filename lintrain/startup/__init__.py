"""What makes lintrain start quickly: classes and patterns that are made when they are first used."""
