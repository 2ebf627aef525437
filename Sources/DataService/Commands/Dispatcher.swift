internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    /// Executes a request: the one switch from opcodes to commands.
    func dispatch(_ request: CommandContext, _ completion: Completion?) -> Execution {
        switch request.command.opcode {
        case .get, .getKey: get(request, completion)
        case .set: store(request, .set, completion)
        case .add: store(request, .add, completion)
        case .replace: store(request, .replace, completion)
        case .delete: delete(request, completion)
        case .increment, .decrement: arithmetic(request, completion)
        case .append: extend(request, atFront: false, completion)
        case .prepend: extend(request, atFront: true, completion)
        case .touch: touch(request, completion)
        case .getAndTouch, .getAndTouchKey:
            refusesReadingChange(request) ? .done : touch(request, completion)
        case .getLocked:
            refusesReadingChange(request) ? .done : getAndLock(request, completion)
        case .unlock: unlock(request, completion)
        case .getMeta: getMeta(request, completion)
        case .setWithMeta, .addWithMeta, .deleteWithMeta: storeWithMeta(request, completion)
        case .getReplica: getReplica(request, completion)
        case .getRandomKey: getRandomKey(request, completion)
        case .observe: observe(request, completion)
        case .observeSeqno: observeSeqno(request)
        case .dcpStreamRequest: requestStream(request, completion)
        case .stat: stat(request)
        case .flush: flush(request, completion)
        case .saslAuth: authenticate(request, completion)
        case .subdocGet, .subdocExists, .subdocGetCount, .subdocDictionaryAdd,
            .subdocDictionaryUpsert, .subdocDelete, .subdocReplace, .subdocArrayPushLast,
            .subdocArrayPushFirst, .subdocArrayInsert, .subdocArrayAddUnique, .subdocCounter,
            .subdocReplaceBodyWithXattr, .subdocMultiLookup, .subdocMultiMutation:
            subDocument(request, completion)
        default: session(request)
        }
    }

    /// Executes a command about the connection itself.
    private func session(_ request: CommandContext) -> Execution {
        switch request.command.opcode {
        case .noop, .verbosity: answer(.success, to: request.replyTo)
        case .quit:
            if !request.command.isQuiet { answer(.success, to: request.replyTo) }
            return .close
        case .version: version(request)
        case .hello: hello(request)
        case .getErrorMap: errorMap(request)
        case .saslListMechanisms: listMechanisms(request)
        case .saslStep: return continueAuthentication(request)
        case .selectBucket: selectBucket(request)
        case .getClusterConfig: clusterConfig(request)
        case .collectionsGetManifest: answerJSON(CollectionsManifest.json, request)
        case .getAllVBucketSeqnos: allSeqnos(request)
        case .tapConnect, .dcpOpen, .dcpAddStream, .dcpCloseStream, .dcpGetFailoverLog,
            .getFailoverLog, .dcpNoop, .dcpBufferAcknowledgement, .dcpControl:
            changes(request)
        default: answer(.unknownCommand, to: request.replyTo)
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
    func vBucket(_ request: CommandContext, _ engine: Bucket) -> VBucket? {
        vBucket(vBucketNumber(request.frame, engine), request, engine)
    }

    /// The vBucket of an explicit number; answers and returns nil also if the lease is over.
    @inline(__always)
    func vBucket(_ number: UInt16, _ request: CommandContext, _ engine: Bucket) -> VBucket? {
        if let vBucket = engine[number], mayAnswerForActiveCopy {
            return vBucket
        }
        answerNotMyVBucket(request)
        return nil
    }

    /// A copy that can answer an observation, and the state that it must still have when it
    /// answers.
    ///
    /// A replica reports only about itself, and needs no lease for that.
    func observable(
        _ number: UInt16,
        _ request: CommandContext,
        in engine: Bucket
    ) -> (vBucket: VBucket, state: VBucketState)? {
        if let copy = engine[number], copy.withCore({ $0.isFollowing }) { return (copy, .replica) }
        return vBucket(number, request, engine).map { ($0, .active) }
    }

    /// Whether an active copy may answer; its answer has to be sent before the lease is over.
    @inline(__always)
    var mayAnswerForActiveCopy: Bool { service.lease.end == .max || isLeased() }

    @inline(never)
    private func isLeased() -> Bool {
        guard !isWithoutLease else { return false }
        isBoundByLease = true
        return true
    }

    /// Answers that the vBucket is not here, with the map, so that the client need not request it.
    func answerNotMyVBucket(_ request: CommandContext) {
        answerNotMyVBucket(request, service.configuration(ofBucket: selectedBucket.name))
    }

    /// Answers with the map if the client reads it.
    ///
    /// Clients of HELLO that did not agree on JSON read the map all the same, and without it repeat the
    /// request until they poll the next one. Those that open streams do not: they request all vBuckets at
    /// once, and read the map over HTTP.
    func answerNotMyVBucket(_ request: CommandContext, _ map: RenderedConfiguration?) {
        let isRead =
            isJSONAgreed || features != FeatureSet() && request.command.opcode != .dcpStreamRequest
        guard let map, isRead else { return answer(.notMyVBucket, to: request.replyTo) }
        map.json.withUnsafeBytes { buffer in
            respond(
                request,
                .notMyVBucket,
                datatype: isJSONAgreed ? .json : [],
                value: ByteView(buffer)
            )
        }
    }

    /// The operations on the selected bucket's documents, for one request.
    @inline(__always)
    func operations(
        _ request: CommandContext,
        on bucket: OpenBucket,
        _ completion: Completion?
    ) -> DocumentOperations {
        DocumentOperations(
            bucket: bucket,
            context: context,
            turn: turn,
            durability: requestedDurability(request),
            mayWaitForRoom: completion.map { !$0.isRoomMade } ?? true
        )
    }

    /// The durability that a request states.
    @inline(__always)
    func requestedDurability(
        _ request: CommandContext
    ) -> DocumentOperations.RequestedDurability? {
        request.framing.durability.map {
            DocumentOperations.RequestedDurability(
                level: $0.level,
                timeoutMilliseconds: $0.timeoutMilliseconds.map(UInt64.init)
            )
        }
    }

    /// The document that a request names; answers and returns nil if this node has no such vBucket.
    @inline(__always)
    func document(_ request: CommandContext, _ bucket: OpenBucket) -> DocumentAddress? {
        let number = vBucketNumber(request.frame, bucket.engine)
        guard let vBucket = vBucket(number, request, bucket.engine) else { return nil }
        return DocumentAddress(
            key: request.frame.key,
            hash: request.hash,
            id: VBucketID(number),
            vBucket: vBucket
        )
    }

    /// Suspends a request until it can be attempted again; answers if its previous wait failed.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - wait: What the attempt needs.
    ///   - document: The document.
    ///   - bucket: The bucket.
    ///   - completion: The result of an earlier wait of this request.
    /// - Returns: The execution to return.
    @inline(never)
    func wait(
        _ request: CommandContext,
        for wait: Wait,
        of document: DocumentAddress,
        _ bucket: OpenBucket,
        _ completion: Completion?
    ) -> Execution {
        if case .failed(let status, let reason) = completion {
            if case .room = wait, status == .temporaryFailure {
                bucket.counters.count(.temporaryFailures, on: context)
            }
            return refuse(request, status, reason)
        }
        // A write for which room was made does not wait for room again.
        let isLast = completion?.isRoomMade ?? false
        return self.wait(request, wait.phase) { done in
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
