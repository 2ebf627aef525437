internal import Bytes
internal import Seams
package import Vocabulary
internal import Wire

/// Operations with a callback, which is called on the client's lane.
///
/// They may be called from any thread, including the lane.
extension Client {
    // MARK: Reads

    /// Reads a document; fails with `notFound` if there is none.
    package func get(
        _ key: [UInt8],
        _ timeout: OperationTimeout = .usual,
        done: @escaping Handler<Document>
    ) {
        read(Request(.get, key: key, isWrite: false), timeout, done: done)
    }

    /// Reads one replica, numbered from 1; it may be older than the active copy.
    ///
    /// Fails with `notFound` if that copy has no such document.
    package func getReplica(
        _ key: [UInt8],
        number: Int,
        _ timeout: OperationTimeout = .usual,
        done: @escaping Handler<Document>
    ) {
        var request = Request(.getReplica, key: key, isWrite: false)
        request.copy = .replica(number)
        read(request, timeout, done: done)
    }

    private func read(
        _ request: Request,
        _ timeout: OperationTimeout,
        done: @escaping Handler<Document>
    ) {
        perform(request, timeout, handler: done) { $0.document }
    }

    // MARK: Writes

    /// Stores a document; fails with `exists` if it has another CAS than `options` name.
    package func set(
        _ key: [UInt8],
        _ value: [UInt8],
        options: WriteOptions = .plain,
        done: @escaping Handler<MutationResult>
    ) {
        store(.set, key, value: value, options: options, done: done)
    }

    /// Stores a document; fails with `exists` if there is one.
    package func add(
        _ key: [UInt8],
        _ value: [UInt8],
        options: WriteOptions = .plain,
        done: @escaping Handler<MutationResult>
    ) {
        store(.add, key, value: value, options: options, done: done)
    }

    /// Stores a document; fails with `notFound` if there is none, or with `exists` as `set` does.
    package func replace(
        _ key: [UInt8],
        _ value: [UInt8],
        options: WriteOptions = .plain,
        done: @escaping Handler<MutationResult>
    ) {
        store(.replace, key, value: value, options: options, done: done)
    }

    /// Appends to a value; fails as `replace` does.
    package func append(
        _ key: [UInt8],
        _ value: [UInt8],
        options: WriteOptions = .plain,
        done: @escaping Handler<MutationResult>
    ) {
        var request = write(.append, key, options: options)
        request.value = value
        request.preservesExpiry = false
        mutate(request, options, done: done)
    }

    /// Prepends to a value; fails as `replace` does.
    package func prepend(
        _ key: [UInt8],
        _ value: [UInt8],
        options: WriteOptions = .plain,
        done: @escaping Handler<MutationResult>
    ) {
        var request = write(.prepend, key, options: options)
        request.value = value
        request.preservesExpiry = false
        mutate(request, options, done: done)
    }

    /// Deletes a document; fails as `replace` does.
    package func delete(
        _ key: [UInt8],
        _ options: WriteOptions = .plain,
        done: @escaping Handler<MutationResult>
    ) {
        var request = write(.delete, key, options: options)
        request.preservesExpiry = false
        mutate(request, options, done: done)
    }

    /// Adds to a number, which does not fall below 0; fails with `notANumber` if it is none.
    ///
    /// If there is no document, stores `initial`, or fails with `notFound` if that is nil.
    package func increment(
        _ key: [UInt8],
        by delta: Int64 = 1,
        initial: UInt64? = nil,
        _ options: WriteOptions = .plain,
        done: @escaping Handler<CounterResult>
    ) {
        var request = write(delta < 0 ? .decrement : .increment, key, options: options)
        let expiry = initial == nil ? UInt32.max : wire(options.expiry)
        request.extras = Client.extras { extras in
            extras.append(bigEndian: delta.magnitude)
            extras.append(bigEndian: initial ?? 0)
            extras.append(bigEndian: expiry)
        }
        perform(request, options.timeout, handler: done) { (reply) throws(ClientError) in
            try reply.counter()
        }
    }

    private func store(
        _ opcode: Opcode,
        _ key: [UInt8],
        value: [UInt8],
        options: WriteOptions,
        done: @escaping Handler<MutationResult>
    ) {
        var request = write(opcode, key, options: options)
        request.value = value
        let expiry = wire(options.expiry)
        request.extras = Client.extras { extras in
            extras.append(bigEndian: options.flags)
            extras.append(bigEndian: expiry)
        }
        mutate(request, options, done: done)
    }

    private func mutate(
        _ request: Request,
        _ options: WriteOptions,
        done: @escaping Handler<MutationResult>
    ) {
        perform(request, options.timeout, handler: done) { $0.mutation }
    }

    func write(_ opcode: Opcode, _ key: [UInt8], options: WriteOptions) -> Request {
        var request = Request(opcode, key: key, isWrite: true)
        request.cas = options.cas
        request.preservesExpiry = options.preservesExpiry
        if let level = options.durability {
            let milliseconds =
                options.timeout.milliseconds ?? core.settings.durableTimeoutMilliseconds
            let timeout =
                options.durabilityTimeoutMilliseconds
                ?? UInt16(min(max(milliseconds * 9 / 10, 1), 65_534))
            request.durability = DurabilityRequirement(level: level, timeoutMilliseconds: timeout)
        }
        return request
    }

    // MARK: Expiry and locks

    /// Sets the expiry of a document; fails with `notFound` if there is none.
    package func touch(
        _ key: [UInt8],
        _ expiry: Expiry,
        timeout: OperationTimeout = .usual,
        done: @escaping Handler<CAS>
    ) {
        var request = Request(.touch, key: key, isWrite: true)
        let seconds = wire(expiry)
        request.extras = Client.extras { $0.append(bigEndian: seconds) }
        perform(request, timeout, handler: done) { $0.answer.cas }
    }

    /// Reads a document and sets its expiry; fails with `notFound` if there is none.
    package func getAndTouch(
        _ key: [UInt8],
        _ expiry: Expiry,
        timeout: OperationTimeout = .usual,
        done: @escaping Handler<Document>
    ) {
        var request = Request(.getAndTouch, key: key, isWrite: true)
        let seconds = wire(expiry)
        request.extras = Client.extras { $0.append(bigEndian: seconds) }
        read(request, timeout, done: done)
    }

    /// Reads and locks: for `seconds`, only writes with the returned CAS are accepted.
    ///
    /// Fails with `notFound`, or with `locked` if it is locked already.
    package func getAndLock(
        _ key: [UInt8],
        seconds: UInt32,
        _ timeout: OperationTimeout = .usual,
        done: @escaping Handler<Document>
    ) {
        var request = Request(.getLocked, key: key, isWrite: true)
        request.extras = Client.extras { $0.append(bigEndian: seconds) }
        read(request, timeout, done: done)
    }

    /// Unlocks a document by the CAS that `getAndLock` returned.
    ///
    /// Fails with `notLocked`, or with `locked` if the CAS is another.
    package func unlock(
        _ key: [UInt8],
        cas: CAS,
        _ timeout: OperationTimeout = .usual,
        done: @escaping Handler<Void>
    ) {
        var request = Request(.unlock, key: key, isWrite: true)
        request.cas = cas
        // "Locked" means that this is not the lock's CAS: a retry would not help.
        request.waitsForLock = false
        perform(request, timeout, handler: done) { _ in () }
    }

    // MARK: Parts

    static func extras(_ fill: (ByteWriter) -> Void) -> [UInt8] {
        let writer = ByteWriter(capacity: 24)
        fill(writer)
        return writer.bytes
    }

    func wire(_ expiry: Expiry) -> UInt32 {
        expiry.wire(wallNanoseconds: core.environment.time.wallNanoseconds())
    }
}

extension Request {
    /// Why the request is invalid; nil if it may be sent.
    var refusal: ClientError? {
        if key.isEmpty { return ClientError(.invalid, "\(opcode): the key is empty") }
        if key.count > Limits.keyBytesMax {
            let text = "\(opcode): the key has \(key.count) bytes, more than \(Limits.keyBytesMax)"
            return ClientError(.invalid, text)
        }
        if value.count > Limits.valueBytesMax {
            let most = Limits.valueBytesMax
            let text = "\(opcode): the value has \(value.count) bytes, more than \(most)"
            return ClientError(.tooBig, text)
        }
        return nil
    }
}
