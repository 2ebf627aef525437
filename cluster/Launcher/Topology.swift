internal import Foundation

/// The cluster's nodes as any of them tells it, and what is asked of it about them.
struct Topology {
    let admin: AdminClient

    struct Member: Decodable {
        let otpNode: String
        let hostname: String
        let clusterMembership: String
        let recoveryType: String?
        let status: String
        /// Of the node that is asked only.
        let thisNode: Bool?

        var isActive: Bool { clusterMembership == "active" }
        /// A rebalance takes it out.
        var isToGo: Bool { clusterMembership == "inactiveFailed" && recoveryType == "none" }
        var port: Int? { hostname.split(separator: ":").last.flatMap { Int($0) } }
    }

    struct Pool: Decodable {
        let nodes: [Member]
        /// Every copy is in its place, and no node waits to come in or to go.
        let balanced: Bool
    }

    private struct Task: Decodable {
        let type: String
        let status: String
        let progress: Double?
        let errorMessage: String?
        let waitingFor: String?
    }

    var pool: Pool { get throws { try admin.require("GET", "/pools/default").json(Pool.self) } }

    var members: [Member] { get throws { try pool.nodes } }

    /// After a rebalance that was to leave nothing to do.
    func requireBalance() throws {
        guard try !pool.balanced else { return }
        throw Refusal(
            "The cluster is not balanced: the rebalance was stopped, or the cluster changed meanwhile.",
            cure: "cluster/rebalance goes on from where it is."
        )
    }

    func member(port: Int) throws -> Member? { try members.first { $0.port == port } }

    /// The member that a node of ours is, or what to do where it is none.
    func member(_ node: RememberedNode) throws -> Member {
        guard let member = try member(port: node.ports.admin) else {
            throw Refusal(
                "Node \(node.index) is no member of the cluster.",
                cure: "cluster/start takes it in."
            )
        }
        return member
    }

    /// Takes in the node whose admin port this is; it serves documents after a rebalance.
    func add(port: Int) throws {
        try tell(
            "/controller/addNode",
            [
                ("hostname", "127.0.0.1:\(port)"), ("user", admin.credentials.user),
                ("password", admin.credentials.password), ("services", "kv"),
            ]
        )
    }

    func failOver(_ member: Member, isHard: Bool) throws {
        let path = isHard ? "/controller/failOver" : "/controller/startGracefulFailover"
        try tell(path, [("otpNode", member.otpNode)])
        if !isHard { try awaitRebalance("Failing over gracefully") }
    }

    /// Deals the documents out anew over all members but `ejected`, which leave; returns when done.
    func rebalance(ejecting ejected: [Member] = []) throws {
        try tell(
            "/controller/rebalance",
            [
                ("knownNodes", try members.map(\.otpNode).joined(separator: ",")),
                ("ejectedNodes", ejected.map(\.otpNode).joined(separator: ",")),
            ]
        )
        try awaitRebalance("Rebalancing")
    }

    func stopRebalance() throws { try tell("/controller/stopRebalance", []) }

    /// Shows progress where somebody watches, and says why where it fails.
    private func awaitRebalance(_ what: String) throws {
        var line = ProgressText(what)
        while true {
            let tasks = try admin.require("GET", "/pools/default/tasks").json([Task].self)
            guard let task = tasks.first(where: { $0.type == "rebalance" }) else {
                throw Refusal("The cluster does not say how its rebalance goes.")
            }
            guard task.status == "running" else {
                line.end()
                if let message = task.errorMessage { throw Refusal(message) }
                return
            }
            line.show(percent: task.progress ?? 0, waitingFor: task.waitingFor)
            pause(milliseconds: 100)
        }
    }

    /// What the cluster refuses is said in its own words.
    private func tell(_ path: String, _ form: [(String, String)]) throws {
        let reply = try admin.request("POST", path, form: form)
        guard !(200...299).contains(reply.status) else { return }
        let list = try? reply.json([String].self).joined(separator: " ")
        throw Refusal(list ?? "POST \(path) was answered \(reply.status): \(reply.text)")
    }
}

/// A percentage that grows on one line of a terminal; nothing where nobody watches.
struct ProgressText {
    private let what: String
    private let isWatched = isatty(2) == 1
    private var shown = ""

    init(_ what: String) {
        self.what = what
    }

    /// - Parameters:
    ///   - percent: How far it is.
    ///   - waitingFor: What holds it up, if something does; as much of it as fits on a line.
    mutating func show(percent: Double, waitingFor: String?) {
        let line = "\(what): \(Int(percent)) %" + (waitingFor.map { "   \($0)" } ?? "")
        guard isWatched, line != shown else { return }
        shown = line
        let text = line.prefix(ProgressText.columns)
        try? FileHandle.standardError.write(contentsOf: Data("\r\u{1b}[K\(text)".utf8))
    }

    mutating func end() {
        if !shown.isEmpty {
            try? FileHandle.standardError.write(contentsOf: Data("\r\u{1b}[K".utf8))
        }
        shown = ""
    }

    /// What a line of the terminal takes without wrapping.
    private static var columns: Int {
        var size = winsize()
        guard ioctl(2, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 1 else { return 79 }
        return Int(size.ws_col) - 1
    }
}
