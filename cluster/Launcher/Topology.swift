internal import Foundation

/// The cluster's nodes, as one of them reports them, and orders about them.
struct Topology {
    let admin: AdminClient

    struct Member: Decodable {
        let otpNode: String
        let hostname: String
        let clusterMembership: String
        let recoveryType: String?
        let status: String
        /// True only for the node that sent the reply.
        let thisNode: Bool?

        var isActive: Bool { clusterMembership == "active" }
        /// Whether the next rebalance removes the node.
        var isToGo: Bool { clusterMembership == "inactiveFailed" && recoveryType == "none" }
        var port: Int? { hostname.split(separator: ":").last.flatMap { Int($0) } }
    }

    struct Pool: Decodable {
        let nodes: [Member]
        /// Every copy is where it should be, and no node waits to be added or removed.
        let balanced: Bool
        let alerts: [Alert]
    }

    struct Alert: Decodable {
        let msg: String
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

    /// Checks that the cluster is balanced after a rebalance.
    func requireBalance() throws {
        guard try !pool.balanced else { return }
        throw Refusal(
            "The cluster is not balanced: the rebalance was stopped, or the cluster changed meanwhile.",
            cure: "cluster/rebalance continues it."
        )
    }

    func member(port: Int) throws -> Member? { try members.first { $0.port == port } }

    /// The member for one of the launcher's nodes.
    func member(_ node: RememberedNode) throws -> Member {
        guard let member = try member(port: node.ports.admin) else {
            throw Refusal(
                "Node \(node.index) is not a member of the cluster.",
                cure: "cluster/start adds it."
            )
        }
        return member
    }

    /// Adds the node with this admin port; it serves documents after a rebalance.
    func add(port: Int) throws {
        try post(
            "/controller/addNode",
            [
                ("hostname", "127.0.0.1:\(port)"), ("user", admin.credentials.user),
                ("password", admin.credentials.password), ("services", "kv"),
            ]
        )
    }

    /// Orders that the next rebalance adds a failed-over node back: with `isFull` without its documents,
    /// otherwise with them.
    func setRecovery(_ member: Member, isFull: Bool) throws {
        let type = isFull ? "full" : "delta"
        try post(
            "/controller/setRecoveryType",
            [("otpNode", member.otpNode), ("recoveryType", type)]
        )
    }

    func failOver(_ member: Member, isHard: Bool) throws {
        let path = isHard ? "/controller/failOver" : "/controller/startGracefulFailover"
        try post(path, [("otpNode", member.otpNode)])
        if !isHard { try awaitRebalance("Failing over gracefully") }
    }

    /// Rebalances over all members but `ejected`, which leave; returns when done.
    func rebalance(ejecting ejected: [Member] = []) throws {
        try post(
            "/controller/rebalance",
            [
                ("knownNodes", try members.map(\.otpNode).joined(separator: ",")),
                ("ejectedNodes", ejected.map(\.otpNode).joined(separator: ",")),
            ]
        )
        try awaitRebalance("Rebalancing")
    }

    func stopRebalance() throws { try post("/controller/stopRebalance", []) }

    /// Waits for the rebalance, with its progress on a terminal.
    private func awaitRebalance(_ what: String) throws {
        var line = ProgressText(what)
        while true {
            let tasks = try admin.require("GET", "/pools/default/tasks").json([Task].self)
            guard let task = tasks.first(where: { $0.type == "rebalance" }) else {
                throw Refusal("The cluster does not report its rebalance.")
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

    /// Sends an order; a refusal is reported in the cluster's words.
    private func post(_ path: String, _ form: [(String, String)]) throws {
        let reply = try admin.request("POST", path, form: form)
        guard !(200...299).contains(reply.status) else { return }
        if reply.status == 401 { throw admin.wrongPassword }
        let list = try? reply.json([String].self).joined(separator: " ")
        throw Refusal(list ?? "POST \(path) was answered \(reply.status): \(reply.text)")
    }
}

/// A percentage on one line of a terminal, updated in place; prints nothing elsewhere.
struct ProgressText {
    private let what: String
    private let isWatched = isatty(2) == 1
    private var shown = ""

    init(_ what: String) {
        self.what = what
    }

    /// - Parameters:
    ///   - percent: The progress.
    ///   - waitingFor: The blocking condition, if any; cut to fit on a line.
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

    /// The columns of a terminal line.
    private static var columns: Int {
        var size = winsize()
        guard ioctl(2, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 1 else { return 79 }
        return Int(size.ws_col) - 1
    }
}
