internal import Bytes
internal import Engine
internal import JSON
internal import Seams
package import Vocabulary
internal import Wire

/// A whole document, copied out of memory.
package struct DocumentCopy: Sendable {
    package let key: [UInt8]
    package let meta: DocumentMeta
    package let value: [UInt8]
}

/// What a question about one document, asked from outside the data port, came to.
package enum DocumentAnswer: Sendable {
    case found(DocumentCopy)
    case written(CAS)
    case notFound
    case noBucket
    case locked
    case tooLarge
    case temporaryFailure
    case failed(String)
}

/// What the admin interface does to one document.
package enum DocumentAction: Sendable {
    case read
    /// Expiry as the protocol has it.
    case write(value: [UInt8], flags: UInt32, expiry: UInt32, preservesExpiry: Bool)
    case delete
}

/// The admin interface's way to documents: the same engine, on a lane of its own.
extension DocumentService {
    /// Does something to one document and calls `done` from some lane.
    package func perform(
        _ action: DocumentAction,
        key: [UInt8],
        inBucket name: String,
        _ done: @escaping @Sendable (DocumentAnswer) -> Void
    ) {
        lanes.nonIO.lane.post { [self] in
            guard let bucket = bucket(named: name) else { return done(.noBucket) }
            guard !key.isEmpty, key.count <= Limits.keyBytesMax else { return done(.notFound) }
            attempt(action, key, bucket, done)
        }
    }

    private func attempt(
        _ action: DocumentAction,
        _ key: [UInt8],
        _ bucket: OpenBucket,
        _ done: @escaping @Sendable (DocumentAnswer) -> Void
    ) {
        let (answer, wait) = key.withUnsafeBytes { buffer in
            execute(action, ByteView(buffer), bucket)
        }
        if let answer { return done(answer) }
        guard let wait, let disk = bucket.disk else { return done(.temporaryFailure) }
        let number = VBucketID(ofKey: key, count: bucket.engine.count)
        let resume: @Sendable (Completion) -> Void = { [self] completion in
            if case .failed(_, let reason) = completion { return done(.failed(reason)) }
            lanes.nonIO.lane.post { [self] in attempt(action, key, bucket, done) }
        }
        func fetch(_ seqno: Seqno, isWhole: Bool) {
            let request = FetchRequest(
                vBucket: number,
                seqno: seqno,
                key: key,
                hash: key.withUnsafeBytes { hash(ByteView($0)) },
                isWhole: isWhole
            )
            disk.fetcher.fetch(request, resume)
        }
        switch wait {
        case .value(let seqno): fetch(seqno, isWhole: false)
        case .metadata(let seqno): fetch(seqno, isWhole: true)
        case .warmup: disk.warmup.whenLoaded(number, resume)
        }
    }

    /// One attempt, on the nonIO lane: an answer, or what to wait for.
    private func execute(
        _ action: DocumentAction,
        _ key: ByteView,
        _ bucket: OpenBucket
    ) -> (DocumentAnswer?, Wait?) {
        let number = VBucketID(ofKey: key, count: bucket.engine.count).number
        guard let vBucket = bucket.engine[number] else { return (.temporaryFailure, nil) }
        let context = lanes.nonIO.context
        let turn = context.turn(environment.time.wallNanoseconds())
        let hash = hash(key)
        switch action {
        case .read:
            return vBucket.withCore { core in
                defer { if core.takeOwedWake() { bucket.disk?.noteDirty(VBucketID(number)) } }
                switch core.get(key, hash: hash, turn) {
                case .found(let item, let cas):
                    var meta = item.meta
                    meta.cas = cas
                    let value = item.value.bytes
                    return (.found(DocumentCopy(key: key.bytes, meta: meta, value: value)), nil)
                case .notFound: return (.notFound, nil)
                case .locked: return (.locked, nil)
                case .wouldBlock(let wait): return (nil, wait)
                case .temporaryFailure, .notMyVBucket: return (.temporaryFailure, nil)
                }
            }
        case .write(let value, let flags, let expiry, let preservesExpiry):
            guard value.count <= Limits.valueBytesMax else { return (.tooLarge, nil) }
            return value.withUnsafeBytes { buffer in
                let view = ByteView(buffer)
                let request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: view,
                    flags: flags,
                    expiry: Expiry.absolute(expiry, now: turn.seconds, maxTTL: bucket.maxTTL),
                    datatype: context.validator.isDocument(view) ? .json : [],
                    cas: .none,
                    mode: .set,
                    preservesExpiry: preservesExpiry
                )
                return finish(vBucket.withCore { $0.store(request, turn) }, number, bucket)
            }
        case .delete:
            let outcome = vBucket.withCore { $0.delete(key, hash: hash, cas: .none, turn) }
            return finish(outcome, number, bucket)
        }
    }

    private func finish(
        _ outcome: MutationOutcome,
        _ number: UInt16,
        _ bucket: OpenBucket
    ) -> (DocumentAnswer?, Wait?) {
        switch outcome {
        case .stored(let stored):
            if stored.wakesFlusher { bucket.disk?.noteDirty(VBucketID(number)) }
            return (.written(stored.cas), nil)
        case .notFound: return (.notFound, nil)
        case .locked: return (.locked, nil)
        case .tooLarge: return (.tooLarge, nil)
        case .wouldBlock(let wait): return (nil, wait)
        default: return (.temporaryFailure, nil)
        }
    }
}
