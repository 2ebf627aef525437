/// How the descriptors of a process are divided among those that need them.
///
/// Each kind of connection has a part that no other kind gets. Files are opened wherever a change or a query
/// needs them, so that a number of free descriptors is kept for them. What is left goes to the first that
/// needs it.
///
/// A machine: it counts nothing itself (`Descriptors` does).
package struct DescriptorPlan: Hashable, Sendable {
    /// A kind of connection.
    package enum Use: Hashable, Sendable, CaseIterable {
        /// Clients of the data ports and of the port for views.
        case clients
        /// Clients of the admin port.
        case administration
        /// Connections from and to nodes of the cluster.
        case nodes
    }

    /// The descriptors that are open.
    package struct Usage: Hashable, Sendable {
        /// All of them, those of connections included.
        package var open: Int
        package var connections: [Use: Int]

        package init(open: Int = 0, connections: [Use: Int] = [:]) {
            self.open = open
            self.connections = connections
        }

        package subscript(use: Use) -> Int { connections[use] ?? 0 }

        /// Files, child processes and what the process itself needs.
        package var others: Int { max(0, open - connections.values.reduce(0, +)) }
    }

    /// Enough for a node of some buckets and views; with fewer, a node serves few clients or none.
    package static let limitMin = 256
    /// As many connections without a login as a node allows (`withoutLoginMax`), and some with one.
    private static let administrationMax = 1_280
    private static let nodesMax = 1_024
    private static let clientsMax = 4_096
    private static let filesMax = 2_048

    /// The most descriptors that the process may have open.
    package let limit: Int
    /// Never given away: look-ups of names, files of `/proc`, and accepts that race with each other.
    package let spare = 16
    /// Kept free for files.
    package let files: Int
    private let parts: [Use: Int]

    /// - Parameter limit: The most descriptors that the process may have open.
    package init(limit: Int) {
        self.limit = limit
        func part(_ divisor: Int, _ least: Int, most: Int) -> Int {
            min(max(limit / divisor, least), most)
        }
        files = part(10, 16, most: Self.filesMax)
        parts = [
            .clients: part(10, 16, most: Self.clientsMax),
            .administration: part(16, 8, most: Self.administrationMax),
            .nodes: part(10, 16, most: Self.nodesMax),
        ]
    }

    /// The connections that a use may have, whatever the others have.
    package func part(of use: Use) -> Int { parts[use] ?? 0 }

    /// The connections without a login on all ports: they leave room in the part of each port.
    package var withoutLoginMax: Int {
        min(part(of: .administration), part(of: .clients)) * 7 / 8
    }

    /// Whether one more connection may be opened.
    package func admits(_ use: Use, _ usage: Usage) -> Bool {
        let free = limit - usage.open
        if usage[use] < part(of: use) { return free > spare }
        return free > spare + files + unused(usage, except: use)
    }

    /// Whether so many files may be opened for good; half of what is kept free for files stays free, for
    /// those that are open for a moment.
    package func admitsFiles(_ count: Int, _ usage: Usage) -> Bool {
        limit - usage.open - count >= spare + files / 2 + unused(usage, except: nil)
    }

    /// The unused descriptors in the parts of all uses but one.
    private func unused(_ usage: Usage, except: Use?) -> Int {
        Use.allCases.filter { $0 != except }
            .reduce(0) { $0 + max(0, part(of: $1) - usage[$1]) }
    }
}
