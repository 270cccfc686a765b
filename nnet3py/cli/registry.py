"""Every command: Kaldi's name, the module and function that run it, and one line of help.

Help, shell completion, ``bin/`` and the entry points of the package are made from this table, so none of them
imports a command. A person's name for a command is Kaldi's without ``nnet3-``. ``nnet3-inspect``, ``nnet3-extras``
and ``nnet3-compile`` are ours: Kaldi has no such programs.
"""
from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command lives: ``nnet3py.cli.<module>``, the attribute in it, and one line of help.

    A command without a ``launcher`` is for a person: ``nnet3py`` runs it, and nothing in ``bin/`` has its name.
    """

    module: str
    function: str
    help: str
    launcher: bool = True


# By what people do; a new command is a line in its group. The page of all commands has the same headings.
GROUPS: dict[str, dict[str, Entry]] = {
    "Start here": {
        "nnet3-inspect": Entry("inspect", "inspect", "Show what a model or its folder holds, and what it lacks."),
        "nnet3-extras": Entry("extras", "extras", "Show what more can be installed, for words or plots, and how."),
        "bin-path": Entry("bin_path", "bin_path", "Print the folder of the launchers with Kaldi's names, for PATH.",
                          launcher=False),
        "warmup": Entry("warmup", "warmup", "Compile all kernels for this machine once, so that no command has to.",
                        launcher=False),
        "cuda-gpu-available": Entry("cuda", "cuda_gpu_available", "Test whether a GPU can be used."),
        "cuda-compiled": Entry("cuda", "cuda_compiled", "Tell by the exit status whether there is GPU support."),
    },
    "Models": {
        "nnet3-init": Entry("model_init", "init", "Make a network from a config file, or extend an existing one."),
        "xconfig-to-configs": Entry("xconfig_to_configs", "xconfig_to_configs", "Turn a list of layers into configs."),
        "nnet3-info": Entry("model_info", "info", "Print what a network consists of."),
        "nnet3-copy": Entry("model_copy", "copy", "Copy a network; optionally edit, scale or convert it."),
        "nnet3-compile": Entry("compile", "compile_request",
                               "Show what the compiler makes of a network and a request."),
        "nnet3-average": Entry("average", "average", "Average the parameters of several networks."),
        "nnet3-am-init": Entry("model_am", "am_init", "Make an acoustic model from a network and a transition model."),
        "nnet3-am-copy": Entry("model_copy", "am_copy",
                               "Copy an acoustic model; optionally edit it or take its network."),
        "nnet3-am-info": Entry("model_info", "am_info", "Print what an acoustic model consists of."),
        "nnet3-am-adjust-priors": Entry("model_am", "am_adjust_priors", "Set the priors of an acoustic model."),
        "nnet3-am-train-transitions": Entry("am_train_transitions", "am_train_transitions",
                                            "Train the transition probabilities of an acoustic model, and its priors."),
        "copy-transition-model": Entry("transitions", "copy_transition_model", "Copy the transition model of a model."),
        "show-transitions": Entry("transitions", "show_transitions", "Print the transitions of a model."),
        "am-info": Entry("transitions", "am_info", "Print what a transition model consists of."),
    },
    "Sound and features": {
        "compute-mfcc-feats": Entry("speech_feats", "compute_mfcc_feats", "Compute MFCC features of sound."),
        "compute-fbank-feats": Entry("speech_feats", "compute_fbank_feats", "Compute filterbank features of sound."),
        "wav-copy": Entry("wav", "wav_copy", "Copy sound."),
        "wav-to-duration": Entry("wav", "wav_to_duration", "Write how many seconds sound lasts."),
        "extract-segments": Entry("wav", "extract_segments", "Cut segments out of recordings."),
        "copy-feats": Entry("copy_feats", "copy_feats", "Copy features; optionally compress them."),
        "feat-to-dim": Entry("feat_to", "feat_to_dim", "Print the dimension of features."),
        "feat-to-len": Entry("feat_to", "feat_to_len", "Print the number of frames of features."),
        "subset-feats": Entry("feats", "subset_feats", "Copy the features of some utterances."),
    },
    "Transforming features": {
        "compute-cmvn-stats": Entry("cmvn", "compute_cmvn_stats", "Compute mean and variance statistics of features."),
        "modify-cmvn-stats": Entry("cmvn", "modify_cmvn_stats", "Exempt dimensions from normalisation."),
        "apply-cmvn": Entry("cmvn", "apply_cmvn", "Normalise the means and variances of features."),
        "apply-cmvn-online": Entry("cmvn", "apply_cmvn_online", "Normalise features with what was seen so far."),
        "splice-feats": Entry("feats", "splice_feats", "Put frames beside their neighbours."),
        "add-deltas": Entry("feats", "add_deltas", "Put the slopes of features beside them."),
        "select-feats": Entry("feats", "select_feats", "Copy some columns of features."),
        "subsample-feats": Entry("feats", "subsample_feats", "Copy every n-th frame of features."),
        "shift-feats": Entry("feats", "shift_feats", "Shift features in time."),
        "paste-feats": Entry("feats_with", "paste_feats", "Put features side by side."),
        "append-vector-to-feats": Entry("feats_with", "append_vector_to_feats", "Append a vector to every frame."),
        "transform-feats": Entry("feats_with", "transform_feats", "Multiply features by a matrix, such as LDA's."),
        "acc-lda": Entry("lda", "acc_lda", "Gather LDA statistics of features."),
        "sum-lda-accs": Entry("lda", "sum_lda_accs", "Add LDA statistics."),
        "est-lda": Entry("lda", "est_lda", "Estimate an LDA transform."),
        "nnet-get-feature-transform": Entry("lda", "get_feature_transform", "Estimate the transform before a network."),
    },
    "Examples": {
        "make-egs": Entry("make_egs", "make_egs", "Make a folder of training examples from data and alignments."),
        "nnet3-get-egs": Entry("egs_get", "get_egs", "Make training examples from features and posteriors."),
        "nnet3-get-egs-dense-targets": Entry("egs_get", "get_egs_dense_targets",
                                             "Make training examples from features and matrices of targets."),
        "nnet3-get-egs-simple": Entry("egs_get_simple", "get_egs_simple", "Make training examples of whole matrices."),
        "nnet3-copy-egs": Entry("egs_copy", "copy_egs", "Copy training examples; optionally select, shift or split."),
        "nnet3-shuffle-egs": Entry("egs_shuffle", "shuffle_egs", "Put training examples into random order."),
        "nnet3-merge-egs": Entry("egs_merge", "merge_egs", "Merge training examples into minibatches."),
        "nnet3-subset-egs": Entry("egs_subset", "subset_egs", "Select a random subset of training examples."),
        "nnet3-egs-augment-image": Entry("egs_augment_image", "egs_augment_image",
                                         "Change the images of training examples at random."),
    },
    "Training": {
        "train-dnn": Entry("train_drivers", "train_dnn", "Train an acoustic model, from features to the final model."),
        "train-rnn": Entry("train_drivers", "train_rnn",
                           "Train a recurrent acoustic model, from features to the final model."),
        "train-raw-dnn": Entry("train_drivers", "train_raw_dnn",
                               "Train a network on targets, from features to the end."),
        "train-raw-rnn": Entry("train_drivers", "train_raw_rnn",
                               "Train a recurrent network on targets, from features to the end."),
        "nnet3-monitor": Entry("training_report", "monitor", "Look for what goes wrong in a training."),
        "nnet3-report": Entry("training_report", "report", "Write a page with plots about a training."),
        "nnet3-train": Entry("train", "train", "Train a network on merged examples."),
        "nnet3-compute-prob": Entry("compute_prob", "compute_prob", "Print objective and accuracy on examples."),
        "nnet3-show-progress": Entry("show_progress", "show_progress", "Show how a network changed in training."),
        "nnet3-combine": Entry("combine", "combine", "Find the best average of the last models of a training."),
        "nnet3-acc-lda-stats": Entry("egs_outputs", "acc_lda_stats", "Gather LDA statistics of outputs for examples."),
    },
    "Chain training": {
        "train-chain": Entry("train_drivers", "train_chain",
                             "Train an acoustic model with LF-MMI, from alignments on."),
        "make-chain-egs": Entry("make_egs", "make_chain_egs",
                                "Make a folder of chain examples from data and alignments."),
        "chain-est-phone-lm": Entry("chain_graphs", "est_phone_lm", "Make the phone language model of chain training."),
        "chain-make-den-fst": Entry("chain_graphs", "make_den_fst", "Make the denominator and normalization graphs."),
        "chain-make-num-fst-e2e": Entry("chain_graphs", "make_num_fst_e2e",
                                        "Make the numerator graphs of end-to-end chain training."),
        "chain-get-supervision": Entry("chain_supervision", "get_supervision",
                                       "Make the supervision of chain training from phones or lattices."),
        "nnet3-chain-get-egs": Entry("chain_get_egs", "chain_get_egs",
                                     "Make chain examples from features and supervisions."),
        "nnet3-chain-e2e-get-egs": Entry("chain_get_egs", "chain_e2e_get_egs",
                                         "Make chain examples of whole utterances from training graphs."),
        "nnet3-chain-normalize-egs": Entry("chain_supervision", "normalize_egs",
                                           "Add the costs of the normalization FST to chain examples."),
        "nnet3-chain-copy-egs": Entry("egs_copy", "chain_copy_egs",
                                      "Copy chain examples; optionally shift or cut them."),
        "nnet3-chain-shuffle-egs": Entry("egs_shuffle", "chain_shuffle_egs", "Put chain examples into random order."),
        "nnet3-chain-merge-egs": Entry("egs_merge", "chain_merge_egs", "Merge chain examples into minibatches."),
        "nnet3-chain-subset-egs": Entry("egs_subset", "chain_subset_egs", "Select a random subset of chain examples."),
        "nnet3-chain-add-post-to-egs": Entry("chain_add_post", "add_post_to_egs",
                                             "Add posteriors of pdfs to chain examples."),
        "nnet3-chain-acc-lda-stats": Entry("egs_outputs", "chain_acc_lda_stats",
                                           "Gather LDA statistics of outputs for chain examples."),
        "nnet3-chain-train": Entry("chain_train", "train",
                                   "Train a network with the LF-MMI objective on chain examples."),
        "nnet3-chain-train2": Entry("chain_train", "train2",
                                    "Train a network with LF-MMI on chain examples of several languages."),
        "nnet3-chain-compute-prob": Entry("chain_compute_prob", "compute_prob",
                                          "Print the LF-MMI objective on examples."),
        "nnet3-chain-combine": Entry("chain_combine", "combine", "Find the best average of the last chain models."),
        "nnet3-chain-combine2": Entry("chain_combine", "combine2",
                                      "Find the best average of the last chain models of several languages."),
        "nnet3-chain-compute-post": Entry("chain_compute_post", "compute_post",
                                          "Compute posteriors of pdfs or phones by the denominator graph."),
    },
    "Discriminative training": {
        "nnet3-discriminative-copy-egs": Entry("egs_copy", "discriminative_copy_egs",
                                               "Copy examples of discriminative training; optionally shift them."),
        "nnet3-discriminative-shuffle-egs": Entry("egs_shuffle", "discriminative_shuffle_egs",
                                                  "Put examples of discriminative training into random order."),
        "nnet3-discriminative-merge-egs": Entry("egs_merge", "discriminative_merge_egs",
                                                "Merge examples of discriminative training into minibatches."),
        "nnet3-discriminative-subset-egs": Entry("egs_subset", "discriminative_subset_egs",
                                                 "Select a random subset of examples of discriminative training."),
    },
    "Computing outputs": {
        "nnet3-compute": Entry("compute", "compute", "Compute a network's output for features."),
        "nnet3-compute-batch": Entry("compute_batch", "compute_batch",
                                     "Compute a network's output for many utterances at a time; faster."),
        "nnet3-compute-from-egs": Entry("egs_outputs", "compute_from_egs", "Compute a network's output for examples."),
    },
    "Decoding": {
        "nnet3-latgen-faster": Entry("latgen", "latgen_faster", "Decode features: lattices, words and alignments."),
        "nnet3-latgen-faster-parallel": Entry("latgen", "latgen_faster_parallel",
                                              "Decode features with several threads."),
        "nnet3-latgen-faster-batch": Entry("latgen_batch", "latgen_faster_batch",
                                           "Decode features, many utterances at a time."),
        "nnet3-latgen-faster-looped": Entry("latgen_looped", "latgen_faster_looped",
                                            "Decode features, computed chunk after chunk as for a stream."),
        "nnet3-latgen-faster-looped-parallel": Entry("latgen_looped", "latgen_faster_looped_parallel",
                                                     "Decode features, chunk after chunk, with several threads."),
        "latgen-faster-mapped": Entry("latgen", "latgen_faster_mapped", "Decode matrices of log-likelihoods of pdfs."),
        "latgen-faster-mapped-parallel": Entry("latgen", "latgen_faster_mapped_parallel",
                                               "latgen-faster-mapped, with several utterances at a time."),
        "word-error-rate": Entry("word_error_rate", "word_error_rate", "Compare recognised words with what was said."),
    },
    "Lattices": {
        "lattice-best-path": Entry("lattice_paths", "lattice_best_path", "Find the best paths through lattices."),
        "lattice-1best": Entry("lattice_paths", "lattice_1best", "Turn lattices into their best paths."),
        "lattice-to-nbest": Entry("lattice_paths", "lattice_to_nbest", "Turn lattices into their N best paths."),
        "lattice-scale": Entry("lattice_scaling", "lattice_scale", "Multiply the costs in lattices."),
        "lattice-add-penalty": Entry("lattice_scaling", "lattice_add_penalty", "Add a penalty for each word."),
        "lattice-add-trans-probs": Entry("lattice_scaling", "lattice_add_trans_probs",
                                         "Add the costs of transitions to lattices."),
        "lattice-boost-ali": Entry("lattice_scaling", "lattice_boost_ali",
                                   "Lower the costs of lattices where they differ from alignments."),
        "lattice-rmali": Entry("lattice_scaling", "lattice_rmali", "Remove the transition-ids from lattices."),
        "lattice-copy": Entry("lattice_copying", "lattice_copy", "Copy lattices, or some of them."),
        "lattice-prune": Entry("lattice_copying", "lattice_prune", "Remove what is far worse than the best path."),
        "lattice-limit-depth": Entry("lattice_copying", "lattice_limit_depth",
                                     "Remove arcs where a frame has too many."),
        "lattice-depth": Entry("lattice_copying", "lattice_depth", "Print how many arcs a frame has on average."),
        "lattice-depth-per-frame": Entry("lattice_copying", "lattice_depth_per_frame",
                                         "Count the arcs that cross each frame."),
        "lattice-project": Entry("lattice_copying", "lattice_project", "Keep the words, or the transition-ids."),
        "lattice-to-fst": Entry("lattice_copying", "lattice_to_fst", "Turn lattices into FSTs of words."),
        "lattice-confidence": Entry("lattice_paths", "lattice_confidence",
                                    "Print how much worse the second best word sequence is."),
        "lattice-to-post": Entry("lattice_posteriors", "lattice_to_post",
                                 "Compute how probable each transition-id is in each frame."),
        "lattice-arc-post": Entry("lattice_posteriors", "lattice_arc_post", "Print arcs and how probable they are."),
        "lattice-mbr-decode": Entry("lattice_mbr", "lattice_mbr_decode",
                                    "Find the words of least expected errors (minimum Bayes risk)."),
        "lattice-to-ctm-conf": Entry("lattice_mbr", "lattice_to_ctm_conf",
                                     "Print when each word was said, and how sure it is."),
        "lattice-align-words": Entry("lattice_align", "lattice_align_words",
                                     "Make lattices whose arcs are words, by phones with positions."),
        "lattice-align-words-lexicon": Entry("lattice_align", "lattice_align_words_lexicon",
                                             "Make lattices whose arcs are words, by a lexicon."),
        "lattice-align-phones": Entry("lattice_align", "lattice_align_phones", "Make lattices whose arcs are phones."),
        "lattice-to-phone-lattice": Entry("lattice_align", "lattice_to_phone_lattice",
                                          "Put phones in place of words or of transition-ids."),
        "nbest-to-linear": Entry("nbest", "nbest_to_linear", "Take lattices of one path apart."),
        "linear-to-nbest": Entry("nbest", "linear_to_nbest", "Make lattices of one path of alignments and words."),
        "nbest-to-ctm": Entry("nbest", "nbest_to_ctm", "Print when each word of best paths was said."),
    },
    "Graphs": {
        "make-graph": Entry("make_graph", "make_graph", "Make the decoding graph of a lexicon, a grammar and a model."),
        "compile-train-graphs": Entry("align_compiled", "compile_train_graphs", "Make the graphs of known words."),
    },
    "Language models": {
        "arpa-to-const-arpa": Entry("language_models", "arpa_to_const_arpa",
                                    "Turn an ARPA file into a language model that is looked up as it is."),
    },
    "Alignments and posteriors": {
        "nnet3-align-compiled": Entry("align_compiled", "align_compiled", "Align features with graphs of known words."),
        "ali-to-pdf": Entry("alignments", "ali_to_pdf", "Turn alignments into pdf-ids."),
        "ali-to-phones": Entry("alignments", "ali_to_phones", "Turn alignments into phones."),
        "ali-to-post": Entry("ali_to_post", "ali_to_post", "Turn alignments into posteriors."),
        "phones-to-ali": Entry("align_phones", "phones_to_ali", "Turn phones with times into alignments."),
        "convert-ali": Entry("align_phones", "convert_ali", "Turn alignments of one model into another's."),
        "text-to-phones": Entry("text_to_phones", "text_to_phones",
                                "Turn transcripts into phones, with random silences."),
        "copy-post": Entry("posteriors", "copy_post", "Copy posteriors; optionally scale them."),
        "post-to-smat": Entry("posteriors", "post_to_smat", "Turn posteriors into sparse matrices."),
        "post-to-tacc": Entry("posteriors", "post_to_tacc", "Sum posteriors by transition-id or pdf-id."),
    },
    "Trees and topologies": {
        "make-topology": Entry("make_topology", "make_topology", "Make the HMM topology of lists of phones."),
        "make-mono-tree": Entry("align_phones", "make_mono_tree",
                                "Make a tree without context, and its transition model."),
        "tree-info": Entry("transitions", "tree_info", "Print what a tree is for."),
    },
    "Speakers and i-vectors": {
        "nnet3-xvector-get-egs": Entry("xvector_get_egs", "xvector_get_egs",
                                       "Make training examples for networks that tell speakers apart."),
        "nnet3-xvector-compute": Entry("xvectors", "xvector_compute", "Compute one vector for each utterance."),
        "nnet3-xvector-compute-batched": Entry("xvectors", "xvector_compute_batched",
                                               "Compute vectors for many utterances at a time; faster."),
    },
    "Tables of matrices and vectors": {
        "copy-matrix": Entry("copy_matrix", "copy_matrix", "Copy matrices; optionally scale or transform them."),
        "matrix-dim": Entry("vectors", "matrix_dim", "Print the numbers of rows and columns of matrices."),
        "matrix-sum": Entry("sums", "matrix_sum", "Add or average matrices of tables or files."),
        "matrix-sum-rows": Entry("sums", "matrix_sum_rows", "Sum the rows of matrices."),
        "copy-vector": Entry("vectors", "copy_vector", "Copy vectors; optionally scale, cut or extend them."),
        "vector-scale": Entry("vectors", "vector_scale", "Multiply vectors by a number."),
        "vector-sum": Entry("sums", "vector_sum", "Add vectors of tables or files."),
        "copy-int-vector": Entry("copy_int_vector", "copy_int_vector", "Copy integer vectors, such as alignments."),
    },
}

COMMANDS: dict[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def person_name(kaldi_name: str) -> str:
    """The name a person types after ``nnet3py``: Kaldi's without ``nnet3-``."""
    return kaldi_name.removeprefix("nnet3-")


# Where two share it (nnet3-am-info and am-info), it is the network's; the other keeps its name as a launcher.
PERSON_NAMES: dict[str, str] = {person_name(name): name
                                for name in sorted(COMMANDS, key=lambda name: name.startswith("nnet3-"))}
