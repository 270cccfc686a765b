"""What is done to features before and beside the network: normalisation, context, transforms and their estimation."""
