internal import ClusterService

/// The body of one client's HTTP feed.
///
/// - A token follows the changes that it stands for: at most once a second, and at the end.
/// - Changes are requested only after the client has accepted those before.
/// - The feed ends when the realm changes, for example with a new password, or a permission is revoked.
struct ChangesReply: Sendable {
    private static let tokenNanoseconds: UInt64 = 1_000_000_000
    /// How often the feed checks whether the client is connected.
    private static let checkNanoseconds: UInt64 = 2_000_000_000
    /// Bytes of one write.
    private static let chunkBytes = 64 << 10

    let call: Call
    let query: ChangesQuery
    let lease: ChangesLease

    private var now: UInt64 { call.service.cluster.monotonicNanoseconds }

    /// When the feed sends something although nothing changes.
    private struct Due {
        /// The time of the next token, if there are changes since the last one.
        var token: UInt64
        var isTokenOwed: Bool
        /// The time of the next heartbeat; nil if there are none.
        var heartbeat: UInt64?

        func wait(from now: UInt64) -> UInt64 {
            var due = now + checkNanoseconds
            if isTokenOwed { due = min(due, token) }
            if let heartbeat { due = min(due, heartbeat) }
            return due - min(now, due)
        }
    }

    /// Sends changes until the feed is over.
    ///
    /// - Throws: The error of `send`.
    func run(while isConnected: () -> Bool, _ send: Reply.Send) async throws {
        let changes = lease.changes
        let format = query.format
        let heartbeat = query.heartbeatSeconds.map { $0 * 1_000_000_000 }
        let realm = Realm(of: call.identity, in: call.state)
        // An event source gets the position at its beginning at once.
        var due = Due(token: now, isTokenOwed: format == .events)
        due.heartbeat = heartbeat.map { now + $0 }
        while isConnected() {
            var output: [UInt8] = []
            let refreshed = call.refreshed
            var isOver =
                Realm(of: call.identity, in: refreshed.state) != realm
                || !AdminRoutes.mayFollow(refreshed, hasValues: query.request.hasValues)
            if !isOver {
                for event in await changes.next(within: due.wait(from: now)) {
                    isOver = format.append(event, to: &output) || isOver
                    if !isOver { due.isTokenOwed = true }
                }
            }
            let now = now
            if isOver || (due.isTokenOwed && now >= due.token) {
                format.append(token: changes.token, to: &output)
                due.isTokenOwed = false
                due.token = now + ChangesReply.tokenNanoseconds
            }
            if output.isEmpty, let next = due.heartbeat, now >= next { output = format.heartbeat }
            if !output.isEmpty {
                due.heartbeat = heartbeat.map { now + $0 }
                try await write(output, send)
            }
            if isOver { return }
        }
    }

    private func write(_ output: [UInt8], _ send: Reply.Send) async throws {
        guard output.count > ChangesReply.chunkBytes else { return try await send(output) }
        for start in stride(from: 0, to: output.count, by: ChangesReply.chunkBytes) {
            let end = min(start + ChangesReply.chunkBytes, output.count)
            try await send(Array(output[start..<end]))
        }
    }
}
