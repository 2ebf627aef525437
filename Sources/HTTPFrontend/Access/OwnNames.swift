internal import NIOCore

/// The names under which this node serves requests whose clients have proved nothing.
///
/// A page of another site can make its own host name resolve to this node's address, and a browser then
/// sends the page's requests here, with that name in `Host`. No page can do so with an address, with
/// `localhost`, or with a name of the node.
package struct OwnNames: Sendable {
    private let names: Set<String>

    /// - Parameter names: The names besides `localhost`: those of the operator (`--host-name`), that by
    ///   which the cluster knows the node, and that of its alternate address.
    package init(_ names: [String]) {
        self.names = Set((names + ["localhost"]).map { $0.lowercased() })
    }

    /// Whether a request's `Host` is an address or one of the names; the port does not count.
    ///
    /// - Parameter header: The field's value; nil if the request has none.
    /// - Returns: False for a missing or malformed field too.
    package func contains(_ header: String?) -> Bool {
        guard let header, let host = Self.host(of: header) else { return false }
        if Self.isAddress(host) { return true }
        return names.contains((host.hasSuffix(".") ? host.dropLast() : host[...]).lowercased())
    }

    /// The host of `host`, `host:port`, `[address]` or `[address]:port`; nil if it is none of them.
    private static func host(of header: String) -> String? {
        let (host, rest): (Substring, Substring)
        if header.hasPrefix("[") {
            guard let end = header.firstIndex(of: "]") else { return nil }
            host = header[header.index(after: header.startIndex)..<end]
            rest = header[header.index(after: end)...]
            guard host.contains(":") else { return nil }
        } else {
            let end = header.firstIndex(of: ":") ?? header.endIndex
            (host, rest) = (header[..<end], header[end...])
        }
        let isPort = rest.dropFirst().utf8.allSatisfy { (0x30...0x39).contains($0) }
        guard !host.isEmpty, rest.isEmpty || rest.hasPrefix(":") && isPort else { return nil }
        return String(host)
    }

    private static func isAddress(_ host: String) -> Bool {
        (try? SocketAddress(ipAddress: host, port: 0)) != nil
    }

    /// The inputs of the rule from a request.
    package struct Asked: Sendable {
        /// The route serves every request: it has no data and changes nothing.
        package var isOpen = false
        /// The request only reads.
        package var isRead = true
        /// It is for `/pools`, by which clients find out what answers.
        package var isDiscovery = false
        package var hasCredentials = false
        /// The value of `Identity.isWithoutProof`.
        package var isWithoutProof = true

        package init() {}
    }

    /// Whether a request must name this node in `Host`: a change on a node without a cluster, and a request
    /// for data without a proof.
    package static func areNeeded(by asked: Asked, isProvisioned: Bool) -> Bool {
        if asked.isOpen { return false }
        if !isProvisioned, !asked.isRead { return true }
        let isFree = asked.isDiscovery && asked.isRead && !asked.hasCredentials
        return asked.isWithoutProof && !isFree
    }
}
