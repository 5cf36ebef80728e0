"""Dense linear algebra as loops: products, factors, inverses."""
