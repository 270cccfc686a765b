"""The network: nodes and components, descriptors, configs, model files, and changing networks.

``descriptor.py``: a parsed, normalized descriptor is ``Descriptor(parts)``; a part is a tree of ``Sum(a, b)``,
``Failover(a, b)``, ``IfDefined(child)``, ``Const(value, width)`` over leaves; a leaf is a tree of ``Offset(child, t,
x)``, ``Round(child, step)``, ``ReplaceIndex(child, variable, value)``, ``Switch(alternatives)`` over ``Source(node,
scale)`` where ``node`` is the node's index. All are immutable and equal by value; ``Leaf`` is a ``Part``, and a part
that only forwards is a leaf. A leaf maps indexes as arrays: ``leaf.map(indexes) -> (nodes int32 (rows,), indexes
int32 (rows, 3))``; rows with t = NO_TIME stay. ``part.children()``, ``part.leaves()``, ``part.sources()`` (every
``Source``) in order; ``part.scales()`` (node -> its scale; an error for two) and ``part.constant()``.
``descriptor.modulus()``, ``dim(nnet)``, ``source_nodes()``, ``text(node_names)``. ``descriptor_parser.py``:
``parse_descriptor(text, node_names)``, where a name ``""`` hides a node.

``nodes.py``: ``InputNode(name, dim)``, ``DescriptorNode(name, descriptor, objective)``, ``ComponentNode(name,
component_index)``, ``DimRangeNode(name, source, dim_offset, dim)``.

``structure.py`` and ``nnet.py``: ``Nnet`` has ``nodes``, ``components``, ``component_names``, ``node_names``,
``version`` (raised by structural edits through ``structure_changed()``). A component node at index i has its
descriptor node, named ``NAME_input``, at i-1. ``nnet.node_index(name)``, ``component_index(name)``,
``component(name)``, ``node_dim(i)``, ``input_dim(name)``, ``output_dim(name)`` (-1 for none), ``is_input(i)``,
``is_output(i)``, ``is_component(i)``, ``is_dim_range(i)``, ``is_descriptor(i)``, ``is_component_input(i)``,
``component_of(i)``, ``descriptor_of(i)`` (a DescriptorNode), ``is_simple()``, ``modulus()``, ``copy()``,
``as_gradient()``, ``scale(f)``, ``add(alpha, other)``, ``dot_product(other)``, ``num_parameters()``,
``read(reader)``, ``write(path, binary=True)``, ``write_to(writer)``, ``read_config(text, seed=0, path=None)``,
``Nnet.from_config(text, seed=0)``, ``config_lines(include_dims=False)``, ``check()``.

``config_reader.py``: config lines into nodes and components. ``consistency.py``: checks, orphans. ``model_file.py``:
``read_nnet(path)`` (raw or acoustic model).
``model_place.py``: where a folder has its model, and how many frames a row of outputs stands for.
``whole_model.py``: test modes, dropout proportions, learning rates,
batch-norm statistics, orthonormal constraint. ``collapse.py``: ``collapse_model(nnet)``, ``prepare_for_test(nnet)``.
``inference.py``: inference passes its network through ``for_inference(nnet, training_mode)``, which makes a copy in
test mode; ``InferenceForm`` shares the arrays that stay the same and tells when the original was edited.
``orphans.py``, ``edits.py``: ``apply_edits(nnet, text)``. ``model_parameters.py``: ``vectorize(nnet)``,
``perturb(nnet, stddev, seed)``, dot products, factors and settings per component. All of these change the network in
place.

``structure.py``: ``NetworkStructure`` is what a network consists of and how it is inspected; descriptors, checks and
edits need no more. ``surgery.py``, ``surgery_components.py``, ``surgery_nodes.py``: the edits of docs/models.md, in
classes from which ``Nnet`` is derived. Each edit runs inside ``edit()``, which keeps what it needs to undo it; the
outermost one checks at its end. ``body.py``: a network's bytes in a file. ``loops.py``: ``find_loop(nnet)`` (nodes that
depend on each other within one time step), ``is_recurrent(nnet)``, ``strong_components(arcs)``.
"""
