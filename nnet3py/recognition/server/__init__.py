"""The server of ``nnet3py serve``: sound over WebSockets, answers in the protocol of vosk-server.

The most important names are :class:`~nnet3py.recognition.server.server.RecognitionServer`, which accepts connections in
one asyncio loop; :class:`~nnet3py.recognition.server.session.Session`, the conversation with one client; and
:class:`~nnet3py.recognition.server.models.ModelLoader`, which reads models by name, and again when files change.
``protocol.py`` has the messages, ``options.py`` options and limits, ``metrics.py`` the counters for Prometheus, which
processes of a server share. Streams are decoded in threads (``session.StreamThreads``), so that no client waits for
another one's sound. The package websockets, an extra, speaks HTTP and WebSocket; it is imported when a server is made.
Modules here must not import ``cli/``, which starts the server; ``options.py`` is light, for the command line.
"""
