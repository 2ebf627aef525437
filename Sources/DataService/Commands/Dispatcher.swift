internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    /// Executes a request: the one switch from opcodes to commands.
    func dispatch(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        switch exchange.command.opcode {
        case .get, .getKey: get(exchange, completion)
        case .set: store(exchange, .set, completion)
        case .add: store(exchange, .add, completion)
        case .replace: store(exchange, .replace, completion)
        case .delete: delete(exchange, completion)
        case .increment, .decrement: arithmetic(exchange, completion)
        case .append: extend(exchange, atFront: false, completion)
        case .prepend: extend(exchange, atFront: true, completion)
        case .touch: touch(exchange, completion)
        case .getAndTouch, .getAndTouchKey:
            refusesReadingChange(exchange) ? .done : touch(exchange, completion)
        case .getLocked:
            refusesReadingChange(exchange) ? .done : getAndLock(exchange, completion)
        case .unlock: unlock(exchange, completion)
        case .getMeta: getMeta(exchange, completion)
        case .getReplica: getReplica(exchange, completion)
        case .observe: observe(exchange, completion)
        case .observeSeqno: observeSeqno(exchange)
        case .stat: stat(exchange)
        case .flush: flush(exchange, completion)
        case .saslAuth: authenticate(exchange, completion)
        default: session(exchange)
        }
    }

    /// Executes a command about the connection itself.
    private func session(_ exchange: Exchange) -> Execution {
        switch exchange.command.opcode {
        case .noop, .verbosity: answer(.success, to: exchange.replyTo)
        case .quit:
            if !exchange.command.isQuiet { answer(.success, to: exchange.replyTo) }
            return .close
        case .version: version(exchange)
        case .hello: hello(exchange)
        case .getErrorMap: errorMap(exchange)
        case .saslListMechanisms: listMechanisms(exchange)
        case .saslStep: continueAuthentication(exchange)
        case .selectBucket: selectBucket(exchange)
        case .getClusterConfig: clusterConfig(exchange)
        case .getAllVBucketSeqnos: allSeqnos(exchange)
        default: answer(.unknownCommand, to: exchange.replyTo)
        }
        return .done
    }

    /// The bucket of a command that needs one.
    @inline(__always)
    var selectedBucket: OpenBucket {
        guard let bucket else { preconditionFailure("the access of the command requires a bucket") }
        return bucket
    }

    /// The vBucket of a request; answers and returns nil if this node has no such vBucket.
    @inline(__always)
    func vBucket(_ exchange: Exchange, _ engine: Bucket) -> VBucket? {
        vBucket(vBucketNumber(exchange.frame, engine), exchange, engine)
    }

    /// The vBucket of an explicit number; answers and returns nil also if the lease is over.
    @inline(__always)
    func vBucket(_ number: UInt16, _ exchange: Exchange, _ engine: Bucket) -> VBucket? {
        if let vBucket = engine[number], service.lease.end == .max || isLeased() {
            return vBucket
        }
        answerNotMyVBucket(exchange)
        return nil
    }

    /// A copy that can answer an observation, and the state that it must still have when it
    /// answers.
    ///
    /// A replica reports only about itself, and needs no lease for that.
    func observable(
        _ number: UInt16,
        _ exchange: Exchange,
        _ engine: Bucket
    ) -> (vBucket: VBucket, state: VBucketState)? {
        if let copy = engine[number], copy.withCore({ $0.isFollowing }) { return (copy, .replica) }
        return vBucket(number, exchange, engine).map { ($0, .active) }
    }

    /// Whether an active copy may answer; its answer has to be sent before the lease is over.
    @inline(never)
    private func isLeased() -> Bool {
        guard !isWithoutLease else { return false }
        isBoundByLease = true
        return true
    }

    /// Answers that the vBucket is not here, with the map, so that the client need not request it.
    func answerNotMyVBucket(_ exchange: Exchange) {
        guard let json = service.configuration(ofBucket: selectedBucket.name)?.json,
            isJSONAgreed
        else { return answer(.notMyVBucket, to: exchange.replyTo) }
        json.withUnsafeBytes { buffer in
            ResponseEncoder.append(
                .notMyVBucket,
                to: output,
                replyTo: exchange.replyTo,
                datatype: .json,
                value: ByteView(buffer),
                duration: duration
            )
        }
    }

    /// The operations on the selected bucket's documents, for one request.
    @inline(__always)
    func operations(
        _ exchange: Exchange,
        on bucket: OpenBucket,
        _ completion: Completion?
    ) -> DocumentOperations {
        DocumentOperations(
            bucket: bucket,
            context: context,
            turn: turn,
            durability: exchange.framing.durability.map {
                DocumentOperations.RequestedDurability(
                    level: $0.level,
                    timeoutMilliseconds: $0.timeoutMilliseconds.map(UInt64.init)
                )
            },
            mayWaitForRoom: completion.map { !$0.isRoomMade } ?? true
        )
    }

    /// The document that a request names; answers and returns nil if this node has no such vBucket.
    @inline(__always)
    func document(_ exchange: Exchange, _ bucket: OpenBucket) -> DocumentAddress? {
        let number = vBucketNumber(exchange.frame, bucket.engine)
        guard let vBucket = vBucket(number, exchange, bucket.engine) else { return nil }
        return DocumentAddress(
            key: exchange.frame.key,
            hash: exchange.hash,
            id: VBucketID(number),
            vBucket: vBucket
        )
    }

    /// Suspends a request until it can be attempted again; answers if its previous wait failed.
    ///
    /// - Parameters:
    ///   - exchange: The request.
    ///   - wait: What the attempt needs.
    ///   - document: The document.
    ///   - bucket: The bucket.
    ///   - completion: The result of an earlier wait of this request.
    /// - Returns: The execution to return.
    @inline(never)
    func wait(
        _ exchange: Exchange,
        for wait: Wait,
        of document: DocumentAddress,
        _ bucket: OpenBucket,
        _ completion: Completion?
    ) -> Execution {
        if case .failed(let status, let reason) = completion {
            if case .room = wait, status == .temporaryFailure {
                bucket.counters.count(.temporaryFailures, on: context)
            }
            answer(status, to: exchange.replyTo, because: reason)
            return .done
        }
        // A write for which room was made does not wait for room again.
        let isLast = completion?.isRoomMade ?? false
        return self.wait(exchange) { done in
            let done = isLast ? Completion.last(done) : done
            bucket.resume(
                after: wait,
                of: document.id,
                key: document.key,
                hash: document.hash,
                done
            )
        }
    }
}
