"""Decision trees over phones in context: their statistics, questions, growth, and what models are made of them."""
