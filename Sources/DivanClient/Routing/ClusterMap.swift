package import Bytes
internal import JSON
package import Seams
package import Vocabulary

/// Which nodes have the vBuckets of one bucket, parsed from one configuration.
///
/// An immutable value. `revision` decides which of two maps is newer; `ClusterMapCache` keeps the
/// newest.
///
/// - Every column of a row is a node's index or `noNode`.
/// - Addresses are those of the configuration. `$HOST` and missing names stand for the host that
///   sent it.
package struct ClusterMap: Hashable, Sendable {
    /// The order of maps: first `revEpoch`, which increases when a majority was lost for good.
    package struct Revision: Hashable, Comparable, Sendable, CustomStringConvertible {
        package let epoch: Int64
        package let number: Int64

        package init(epoch: Int64, number: Int64) {
            self.epoch = epoch
            self.number = number
        }

        package static func < (one: Revision, other: Revision) -> Bool {
            one.epoch == other.epoch ? one.number < other.number : one.epoch < other.epoch
        }

        package var description: String { "\(epoch).\(number)" }
    }

    static let noNode: Int16 = -1

    package let bucket: String
    package let revision: Revision
    /// The data port of each node that has one.
    package let nodes: [SocketAddress]
    package let vBucketCount: Int
    /// The number of copies of a vBucket, the active one included: the columns of a row.
    package let copies: Int
    private let columns: [Int16]
    /// The owners after the current moves; nil if the map does not name them.
    private let forwardColumns: [Int16]?

    /// The vBucket of a key.
    package func vBucket(of key: ByteView) -> VBucketID {
        VBucketID(ofKey: key, count: vBucketCount)
    }

    /// The index of the node that has a copy: copy 0 is the active one, the others are replicas;
    /// nil if there is none.
    package func node(of vBucket: VBucketID, copy: Int = 0) -> Int? {
        node(of: vBucket, copy, in: columns)
    }

    /// The index of the node that will have a copy after the current moves; nil if the map names
    /// none.
    package func forwardNode(of vBucket: VBucketID, copy: Int = 0) -> Int? {
        forwardColumns.flatMap { node(of: vBucket, copy, in: $0) }
    }

    private func node(of vBucket: VBucketID, _ copy: Int, in columns: [Int16]) -> Int? {
        guard vBucket.number < vBucketCount, copy < copies else { return nil }
        let index = columns[Int(vBucket.number) * copies + copy]
        return index == ClusterMap.noNode ? nil : Int(index)
    }
}

extension ClusterMap {
    /// Why a configuration is unusable, as a sentence.
    package struct InvalidMap: Error, Hashable, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// Parses a bucket's configuration that `host` has sent.
    ///
    /// - Parameters:
    ///   - json: The configuration.
    ///   - host: The name by which the client knows the node that sent it.
    ///   - isSecured: Whether the addresses are those with TLS.
    /// - Throws: `InvalidMap` if it is not JSON, not of a bucket, empty, or contradicts itself, or names a
    ///   node without such a port.
    package init(_ json: ByteView, host: String, isSecured: Bool = false) throws(InvalidMap) {
        guard let tree = JSONValue.parse(json) else {
            throw InvalidMap(description: "the configuration is not JSON")
        }
        guard let map = tree["vBucketServerMap"], let name = tree["name"]?.string else {
            throw InvalidMap(description: "the configuration is not that of a bucket")
        }
        bucket = name
        revision = Revision(
            epoch: Int64(tree["revEpoch"]?.int ?? 0),
            number: Int64(tree["rev"]?.int ?? 0)
        )
        nodes =
            isSecured
            ? try ClusterMap.securedNodes(tree, map, host: host)
            : try ClusterMap.nodes(tree, map, host: host)
        let rows = map["vBucketMap"]?.array ?? []
        guard let width = rows.first?.array?.count, width > 0, !nodes.isEmpty else {
            throw InvalidMap(description: "the map of bucket \(name) is still empty")
        }
        vBucketCount = rows.count
        copies = width
        columns = try ClusterMap.columns(rows, width, nodeCount: nodes.count)
        let forward = map["vBucketMapForward"]?.array ?? []
        forwardColumns =
            forward.count == rows.count
            ? try ClusterMap.columns(forward, width, nodeCount: nodes.count) : nil
    }

    private static func columns(
        _ rows: [JSONValue],
        _ width: Int,
        nodeCount: Int
    ) throws(InvalidMap) -> [Int16] {
        var columns: [Int16] = []
        columns.reserveCapacity(rows.count * width)
        for row in rows {
            guard let cells = row.array, cells.count == width else {
                throw InvalidMap(description: "the rows of the vBucket map differ in length")
            }
            for cell in cells {
                guard let index = cell.int, (-1..<nodeCount).contains(index) else {
                    throw InvalidMap(description: "the vBucket map names an unknown node")
                }
                columns.append(Int16(index))
            }
        }
        return columns
    }

    /// The data nodes, in the order of the map's indexes.
    ///
    /// `nodesExt` is the newer list, with the ports. `serverList` is used if `nodesExt` is missing
    /// or shorter.
    private static func nodes(
        _ tree: JSONValue,
        _ map: JSONValue,
        host: String
    ) throws(InvalidMap) -> [SocketAddress] {
        let servers = map["serverList"]?.array ?? []
        let extended = addresses(tree, ofService: "kv", host: host)
        guard extended.count < max(1, servers.count) else { return extended }
        var found: [SocketAddress] = []
        for server in servers {
            guard let text = server.string, let address = SocketAddress(parsing: text) else {
                throw InvalidMap(description: "the vBucket map names a node without a port")
            }
            found.append(SocketAddress(host: real(address.host, host), port: address.port))
        }
        return found
    }

    /// The data nodes' ports with TLS, in the order of the map's indexes: `serverList` has none.
    private static func securedNodes(
        _ tree: JSONValue,
        _ map: JSONValue,
        host: String
    ) throws(InvalidMap) -> [SocketAddress] {
        let found = addresses(tree, ofService: "kvSSL", host: host)
        guard found.count >= max(1, map["serverList"]?.array?.count ?? 0) else {
            throw InvalidMap(description: "the vBucket map names a node without a port with TLS")
        }
        return found
    }

    /// The addresses in `nodesExt` that have a service.
    private static func addresses(
        _ tree: JSONValue,
        ofService service: String,
        host: String
    ) -> [SocketAddress] {
        (tree["nodesExt"]?.array ?? []).compactMap { node in
            guard let port = node["services"]?[service]?.int.flatMap(UInt16.init(exactly:)) else {
                return nil
            }
            return SocketAddress(host: real(node["hostname"]?.string ?? "", host), port: port)
        }
    }

    private static func real(_ name: String, _ host: String) -> String {
        name.isEmpty || name == "$HOST" ? host : name
    }
}

extension SocketAddress {
    /// Parses `host:port`, with optional brackets around the host, as for IPv6; nil if malformed.
    package init?(parsing text: String) {
        guard let colon = text.lastIndex(of: ":"),
            let port = UInt16(text[text.index(after: colon)...])
        else { return nil }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        guard !host.isEmpty else { return nil }
        self.init(host: String(host), port: port)
    }
}

/// The newest map that a client has received, from any source.
///
/// Configurations arrive at login, in NOT_MY_VBUCKET answers, as pushes and on request. They may
/// overtake each other, so only their revision decides which one is used.
///
/// - The revision of `current` only increases.
package struct ClusterMapCache: Sendable {
    package enum Outcome: Hashable, Sendable {
        /// The map is the newest and is now `current`.
        case applied
        /// The map is not newer than `current`.
        case known
        /// The map is unusable; the sentence says why.
        case refused(String)
    }

    package let bucket: String
    private let isSecured: Bool
    package private(set) var current: ClusterMap?
    /// How many maps were applied.
    package private(set) var changes = 0

    /// A cache without a map; `isSecured` as in `ClusterMap`.
    package init(bucket: String, isSecured: Bool = false) {
        self.bucket = bucket
        self.isSecured = isSecured
    }

    /// Applies a configuration that `host` has sent, if it is newer.
    package mutating func apply(_ json: ByteView, host: String) -> Outcome {
        do throws(ClusterMap.InvalidMap) {
            return apply(try ClusterMap(json, host: host, isSecured: isSecured))
        } catch {
            return .refused(error.description)
        }
    }

    /// Applies a map, if it is newer.
    package mutating func apply(_ map: ClusterMap) -> Outcome {
        guard map.bucket == bucket else {
            return .refused("the configuration is of bucket \(map.bucket), not of \(bucket)")
        }
        if let current, current.revision >= map.revision { return .known }
        current = map
        changes += 1
        return .applied
    }
}
