"""Other libraries' habits: scikit-learn, sktime."""
