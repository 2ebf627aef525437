internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    /// Opcode to command: the one switch.
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

    /// Commands about the connection itself.
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
        guard let bucket else { preconditionFailure("the table says who needs a bucket") }
        return bucket
    }

    /// The vBucket a request is about; answers and returns nil where this node has no such.
    @inline(__always)
    func vBucket(_ exchange: Exchange, _ engine: Bucket) -> VBucket? {
        vBucket(vBucketNumber(exchange.frame, engine), exchange, engine)
    }

    /// The same for a number that the request has elsewhere; also where the lease is over.
    @inline(__always)
    func vBucket(_ number: UInt16, _ exchange: Exchange, _ engine: Bucket) -> VBucket? {
        if let vBucket = engine[number], service.lease.end == .max || isLeased() {
            return vBucket
        }
        answerNotMyVBucket(exchange)
        return nil
    }

    /// A copy that may be asked what it has, and what it has to be still when it answers: one that
    /// follows another speaks of itself, and needs no lease for that.
    func observable(
        _ number: UInt16,
        _ exchange: Exchange,
        _ engine: Bucket
    ) -> (vBucket: VBucket, state: VBucketState)? {
        if let copy = engine[number], copy.withCore({ $0.isFollowing }) { return (copy, .replica) }
        return vBucket(number, exchange, engine).map { ($0, .active) }
    }

    /// Whether an active copy may be asked; its answer has to leave before the lease is over.
    @inline(never)
    private func isLeased() -> Bool {
        guard !isWithoutLease else { return false }
        isBoundByLease = true
        return true
    }

    /// Not here: with the map that says where, so that the client need not ask for it.
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

    /// Has a request wait for the disk, or says that what it waited for will not come.
    ///
    /// - Parameters:
    ///   - exchange: The request.
    ///   - wait: What it needs.
    ///   - vBucket: Which one, where the request's head does not say so.
    ///   - key: The key in question, where it is not the request's.
    ///   - completion: What came of waiting before.
    /// - Returns: What the caller returns.
    func wait(
        _ exchange: Exchange,
        for wait: Wait,
        of vBucket: VBucketID? = nil,
        key: ByteView? = nil,
        _ completion: Completion?
    ) -> Execution {
        if case .failed(let status, let reason) = completion {
            answer(status, to: exchange.replyTo, because: reason)
            return .done
        }
        let bucket = selectedBucket
        let number = vBucket?.number ?? vBucketNumber(exchange.frame, bucket.engine)
        // A write that room was made for does not begin to wait for room again.
        var isLast = false
        if case .roomMade = completion { isLast = true }
        if case .handOver = wait {
            return self.wait(exchange) { done in
                let done = isLast ? Completion.last(done) : done
                service.whenSettled(VBucketID(number), of: bucket, done)
            }
        }
        guard let disk = bucket.disk else {
            preconditionFailure("only a bucket with a disk has something to wait for")
        }
        return self.wait(exchange) { done in
            let done = isLast ? Completion.last(done) : done
            func fetch(_ seqno: Seqno, isWhole: Bool) {
                bucket.counters.count(.backgroundFetches, row: context.row)
                let request = FetchRequest(
                    vBucket: VBucketID(number),
                    seqno: seqno,
                    key: (key ?? exchange.frame.key).bytes,
                    hash: key.map { service.hash($0) } ?? exchange.hash,
                    isWhole: isWhole
                )
                disk.fetcher.fetch(request, done)
            }
            switch wait {
            case .value(let seqno): fetch(seqno, isWhole: false)
            case .metadata(let seqno): fetch(seqno, isWhole: true)
            case .warmup: disk.warmup.whenLoaded(VBucketID(number), done)
            case .handOver: preconditionFailure("that was answered above")
            }
        }
    }
}
