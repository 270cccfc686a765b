"""RNN language models in the form of Kaldi's nnet3: a network between the embeddings of words."""
