/// Locks of documents, each with a queue: a write reads its document, runs the sync function, and writes.
final class DocumentLocks: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// The callers that wait, by locked document.
    private var waiting: [[UInt8]: [UnsafeContinuation<Void, Never>]] = [:]

    /// Locks documents, in the order of their ids, so that two callers never wait for each other.
    func lock(_ ids: Set<[UInt8]>) async {
        if ids.count == 1, let id = ids.first { return await lock(id) }
        for id in ids.sorted(by: { $0.lexicographicallyPrecedes($1) }) { await lock(id) }
    }

    func isLocked(_ id: [UInt8]) -> Bool { waiting[id] != nil }

    func unlock(_ ids: Set<[UInt8]>) {
        for id in ids {
            guard var queue = waiting[id] else {
                preconditionFailure("a document is unlocked twice")
            }
            guard !queue.isEmpty else {
                waiting[id] = nil
                continue
            }
            let next = queue.removeFirst()
            waiting[id] = queue
            next.resume()
        }
    }

    private func lock(_ id: [UInt8]) async {
        guard waiting[id] != nil else {
            waiting[id] = []
            return
        }
        await withUnsafeContinuation { waiting[id]?.append($0) }
    }
}
