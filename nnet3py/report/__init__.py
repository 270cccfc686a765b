"""Reports: drawings and tables of a compilation, and pages, plots and warnings about a training.

The most important names: ``draw_network`` (``draw_network.py``), a network as SVG; ``report`` (``tables.py``), a
compilation as text; ``write_report`` (``training_page.py``), one HTML page about a training, which opens offline.
``training_logs.py`` reads Kaldi's logs and folders, ``monitor.py`` finds problems in them, ``training_plots.py`` plots
them with matplotlib (the extra ``plot``), ``tensorboard.py`` writes event files with tensorboardX.

The package must not import ``drivers``, ``fine_tuning`` or ``cli``; matplotlib and tensorboardX are imported late.

Plots are matplotlib's. Drawings of networks, graphs and memory are our own SVG, since they are part of the base
install. Other libraries were tried for the layout of networks (190 lines in ``svg.py``): Graphviz needs the program
``dot``, which wheels lack; grandalf is under GPL or EPL; fast-sugiyama knows no sizes of boxes, so that the drawing of
an LSTM network was 5269 pixels wide in place of 1838; and all of them leave box, arrow and label drawing to us. plotly
would add megabytes of script to each page. Pages have few loops, which Jinja templates would not make shorter.
"""
