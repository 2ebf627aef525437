internal import Bytes
internal import ClusterService
internal import Orchestration
package import ViewService
package import Vocabulary

/// Implements the view service's port `DocumentLookup` by the operations of the document browser,
/// which ask the node that serves the document.
///
/// - Few documents of another node are read at a time: their answers share its `control` connection,
///   which is closed if they do not fit into its queue.
package struct IncludedDocumentReader: DocumentLookup {
    /// Asks the serving node for a document, by its key and its bucket's name.
    package typealias Read = @Sendable (_ key: [UInt8], _ bucket: String) async -> DocumentOutcome
    /// The node that serves a document; nil if it is this node, or unknown.
    package typealias Owner = @Sendable (_ key: [UInt8], _ bucket: String) -> NodeNumber?

    /// Documents of one other node that all queries read at a time: two of the largest fit into the
    /// queue of the connection (`PeerLimits.queueBytesMax`).
    package static let readsMax = 2

    private let owner: Owner
    private let read: Read
    private let turns = ReadTurns(IncludedDocumentReader.readsMax)

    init(_ administration: AdministrationService) {
        self.init(
            owner: { key, name in
                guard let bucket = administration.state.bucket(named: name) else { return nil }
                let vBucket = VBucketID(ofKey: key, count: bucket.placements.count)
                let owner = bucket[vBucket].chain.first
                return owner == administration.thisNode ? nil : owner
            },
            read: { await administration.documents.perform(.read, on: $0, inBucket: $1) }
        )
    }

    package init(owner: @escaping Owner, read: @escaping Read) {
        self.owner = owner
        self.read = read
    }

    package func document(
        _ id: [UInt8],
        inBucket name: String
    ) async -> IncludedDocumentOutcome {
        let owner = owner(id, name)
        if let owner { await turns.begin(at: owner) }
        let outcome = await read(id, name)
        if let owner { turns.end(at: owner) }
        let copy: DocumentCopy
        switch outcome {
        case .found(let found): copy = found
        case .refused(.notFound): return .missing
        case .refused(.temporaryFailure), .refused(.notMyVBucket):
            return .failed("The node of the document did not answer in time. Retry the query.")
        case .failed(let reason): return .failed(reason)
        case .noBucket: return .failed("The bucket was deleted.")
        case .refused, .written, .unchanged:
            return .failed("The node of the document cannot read it. Retry the query.")
        }
        let input = MapInput()
        // The texts belong to `input`.
        return withExtendedLifetime(input) {
            id.withUnsafeBytes { key in
                copy.value.withUnsafeBytes { value in
                    // No row can name a document whose key is not UTF-8.
                    let texts = input.included(
                        copy.meta,
                        key: ByteView(key),
                        value: ByteView(value)
                    )
                    guard let texts else { return .missing }
                    return .found(
                        IncludedDocument(meta: texts.meta.bytes, body: texts.body.bytes)
                    )
                }
            }
        }
    }
}

/// Bounds the reads that wait for an answer of each node; further ones wait in their order.
private final class ReadTurns: Sendable {
    private struct State {
        var running: [NodeNumber: Int] = [:]
        var waiting: [NodeNumber: [UnsafeContinuation<Void, Never>]] = [:]
    }

    private let countMax: Int
    private let state = Guarded(State())

    init(_ countMax: Int) {
        self.countMax = countMax
    }

    /// Waits for the turn of a read.
    func begin(at node: NodeNumber) async {
        await withUnsafeContinuation { waiter in
            let isFirst = state.withLock { state in
                guard state.running[node, default: 0] < countMax else {
                    state.waiting[node, default: []].append(waiter)
                    return false
                }
                state.running[node, default: 0] += 1
                return true
            }
            if isFirst { waiter.resume() }
        }
    }

    /// Ends a read; the next one has its turn.
    func end(at node: NodeNumber) {
        let next = state.withLock { state -> UnsafeContinuation<Void, Never>? in
            if state.waiting[node]?.isEmpty == false { return state.waiting[node]?.removeFirst() }
            state.running[node, default: 1] -= 1
            return nil
        }
        next?.resume()
    }
}
