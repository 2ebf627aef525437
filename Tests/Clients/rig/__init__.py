"""What the tests share: nodes, clients made of sockets, a browser. No assertions in here."""
