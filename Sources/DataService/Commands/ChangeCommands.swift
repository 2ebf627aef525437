package import Bytes
internal import Engine
internal import JSON
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// The change protocol (DCP) as clients use it: this node is the producer (docs/changes.md, *DCP*).
extension Connection {
    /// Executes a command of the change protocol.
    func changes(_ request: CommandContext) {
        switch request.command.opcode {
        case .dcpOpen: openProducer(request)
        case .tapConnect: connectTap(request)
        case .dcpAddStream:
            let text = "ADD_STREAM is for servers only. Request streams with STREAM_REQ."
            answer(.notSupported, request, text)
        case .dcpGetFailoverLog, .getFailoverLog: failoverLog(request)
        case .dcpNoop:
            // Some clients answer a no-op with a request of the same opaque, and await no response.
            let isAnswer = producer?.answersNoop(request.frame.opaque) ?? false
            if !isAnswer { answer(.success, to: request.replyTo) }
        default: openedChanges(request)
        }
    }

    /// The producer for a command that needs an opened one; answers and returns nil without it.
    private func openedProducer(_ request: CommandContext) -> ClientProducer? {
        // After a flush or a deletion, a client acknowledges messages of the bucket before it.
        let isAcknowledgement = request.command.opcode == .dcpBufferAcknowledgement
        guard let producer else {
            answer(.invalid, request, "Send DCP_OPEN first: this connection streams no changes.")
            return nil
        }
        // The connection closes when its streams have ended. The request is right, on a new connection.
        guard producer.bucket === bucket || isAcknowledgement else {
            answer(.temporaryFailure, request, "The bucket was flushed or deleted. Connect again.")
            return nil
        }
        return producer
    }

    /// Executes a command that needs an opened producer.
    private func openedChanges(_ request: CommandContext) {
        guard let producer = openedProducer(request) else { return }
        switch request.command.opcode {
        case .dcpControl: control(request, producer)
        case .dcpCloseStream: closeStream(request, producer)
        case .dcpBufferAcknowledgement:
            let bytes = request.frame.extras.bigEndian(at: 0, as: UInt32.self)
            producer.streams.acknowledge(Int(bytes))
        default: answer(.unknownCommand, to: request.replyTo)
        }
    }

    /// Whether the connection can begin to stream changes; otherwise answers why not.
    private func mayBeginStreaming(_ request: CommandContext) -> Bool {
        if isMemcachedListener {
            answer(.unknownCommand, to: request.replyTo)
        } else if pushes.sender != nil {
            let text = "This connection streams changes already. Use another connection."
            answer(.invalid, request, text)
        } else {
            return true
        }
        return false
    }

    private func openProducer(_ request: CommandContext) {
        guard mayBeginStreaming(request) else { return }
        guard case .open(let flags, let name) = DCPDecoder.message(in: request.frame) else {
            return answer(.invalid, request, "The name of a connection has at most 200 bytes.")
        }
        do throws(ConsumerRefusal) {
            let flags = ConsumerSettings.OpenFlags(rawValue: flags)
            pushes.sender = ClientProducer(
                name: name.text,
                selectedBucket,
                settings: try ConsumerSettings(flags: flags, agreed: agreement),
                port: port,
                service: service
            )
            answer(.success, to: request.replyTo)
        } catch {
            refuse(request, error)
        }
    }

    /// The features that the client agreed to in HELLO and that concern changes.
    private var agreement: ConsumerSettings.Agreement {
        var agreed: ConsumerSettings.Agreement = []
        if features.contains(.xattr) { agreed.insert(.attributes) }
        if features.contains(.snappy) { agreed.insert(.snappy) }
        return agreed
    }

    /// TAP_CONNECT has a response only if it is refused: a client reads the messages at once.
    private func connectTap(_ request: CommandContext) {
        guard mayBeginStreaming(request) else { return }
        guard let asked = TapRequest(request.frame) else {
            let text = "The flags need a date of eight bytes, or a list of vBuckets, in the value."
            return answer(.invalid, request, text)
        }
        let known: TapRequest.Flags = [
            .backfill, .dump, .listVBuckets, .supportAcknowledgement, .keysOnly, .fixFlagByteOrder,
        ]
        guard asked.flags.isSubset(of: known) else {
            let rest = String(asked.flags.subtracting(known).rawValue, radix: 16)
            let text = "The TAP flags 0x\(rest) are not supported: they are for servers."
            return answer(.notSupported, request, text)
        }
        pushes.sender = TapProducer(
            asked,
            selectedBucket,
            port: port,
            login: login,
            service: service
        )
    }

    private func control(_ request: CommandContext, _ producer: ClientProducer) {
        do throws(ConsumerRefusal) {
            try producer.apply(request.frame.key.text, request.frame.value.text)
            answer(.success, to: request.replyTo)
        } catch {
            refuse(request, error)
        }
    }

    private func refuse(_ request: CommandContext, _ refusal: ConsumerRefusal) {
        switch refusal {
        case .invalid(let text): answer(.invalid, request, text)
        case .notSupported(let text): answer(.notSupported, request, text)
        }
    }

    // MARK: Streams

    /// STREAM_REQ; waits while the vBucket is being loaded.
    func requestStream(_ request: CommandContext, _ completion: Completion?) -> Execution {
        guard let producer = openedProducer(request),
            let asked = streamRequest(request, producer)
        else { return .done }
        let frame = request.frame
        switch producer.open(frame.vBucket, opaque: frame.opaque, asked) {
        case .opened(let feed, _, let log):
            answer(log, request)
            producer.streams.start(frame.vBucket, opaque: frame.opaque, feed)
        case .rollBack(let seqno, _): answerRollback(to: seqno, request)
        case .outOfRange: answer(.outOfRange, to: request.replyTo)
        case .noVBucket, .notAdmitted: answerNotMyVBucket(request)
        case .notLoaded: return waitForLoading(request, producer, completion: completion)
        }
        return .done
    }

    /// The position of a stream request that can be served; answers and returns nil if it cannot.
    private func streamRequest(
        _ request: CommandContext,
        _ producer: ClientProducer
    ) -> DCPStreamRequest? {
        let frame = request.frame
        guard case .streamRequest(let asked, let filter) = DCPDecoder.message(in: frame) else {
            answer(.invalid, request, "A stream request has no key.")
            return nil
        }
        if let text = Connection.refusal(of: asked.flags) ?? StreamFilter.refusal(of: filter) {
            answer(.invalid, request, text)
            return nil
        }
        let engine = producer.bucket.engine
        guard vBucket(frame.vBucket.number, request, engine) != nil else { return nil }
        guard producer.streams[frame.vBucket] == nil else {
            answer(.keyExists, request, "This connection has a stream of this vBucket.")
            return nil
        }
        return asked
    }

    private func answerRollback(to seqno: Seqno, _ request: CommandContext) {
        let scratch = context.scratch
        scratch.removeAll()
        scratch.append(bigEndian: seqno.value)
        respond(request, .rollback, value: scratch.view)
    }

    /// Suspends a stream request until its vBucket is loaded; refuses it if that fails or takes too
    /// long.
    ///
    /// The refusal is NOT_MY_VBUCKET: clients repeat such a request after a pause. After a temporary
    /// failure they repeat it at once, or give up. It has no map: the vBucket is here, and hundreds
    /// of requests may be refused together.
    private func waitForLoading(
        _ request: CommandContext,
        _ producer: ClientProducer,
        completion: Completion?
    ) -> Execution {
        var isFailed = false
        if case .failed = completion { isFailed = true }
        guard !isFailed, let disk = producer.bucket.disk,
            let nanoseconds = producer.timeToWaitForLoading()
        else { return refuse(request, .notMyVBucket) }
        let vBucket = request.frame.vBucket
        return wait(request, .load) { [lane = service.lanes.nonIO.lane] done in
            disk.warmup.whenLoaded(vBucket, done)
            lane.post(after: nanoseconds) {
                done(.failed(.notMyVBucket, "The vBucket is being loaded."))
            }
        }
    }

    /// Why flags of a stream request are refused; nil if they are accepted.
    private static func refusal(of flags: DCPStreamRequest.Flags) -> String? {
        let known: DCPStreamRequest.Flags = [
            .diskOnly, .toLatest, .activeOnly, .strictUUID, .fromLatest, .ignorePurged,
        ]
        guard !flags.isSubset(of: known) else { return nil }
        let rest = String(flags.subtracting(known).rawValue, radix: 16)
        return "The stream flags 0x\(rest) are not supported."
    }

    private func closeStream(_ request: CommandContext, _ producer: ClientProducer) {
        guard let stream = producer.streams.close(request.frame.vBucket) else {
            return answer(.keyNotFound, request, "This connection has no stream of this vBucket.")
        }
        answer(.success, to: request.replyTo)
        guard producer.settings.endsClosedStreams else { return }
        let before = output.count
        let encoder = DCPEncoder(vBucket: stream.vBucket, opaque: stream.opaque)
        encoder.append(DCPStreamEnd.closed, to: output)
        producer.streams.recordSent(output.count - before)
    }

    private func failoverLog(_ request: CommandContext) {
        let engine = selectedBucket.engine
        let number = vBucketNumber(request.frame, engine)
        guard let (vBucket, state) = observable(number, request, in: engine) else { return }
        let log = vBucket.withCore { $0.state == state ? $0.failoverLog : nil }
        guard let log else { return answerNotMyVBucket(request) }
        answer(log, request)
    }

    private func answer(_ log: FailoverLog, _ request: CommandContext) {
        let scratch = context.scratch
        scratch.removeAll()
        DCPEncoder.append(log, to: scratch)
        respond(request, .success, value: scratch.view)
    }
}

/// The filter of a stream request: JSON that names what a client of collections selects.
///
/// Every document is in the default collection. Gateways of the releases from 3.1 on select it by its
/// number, also on a connection that was granted no collections, so a filter that selects it is
/// accepted and selects all changes. One that names another collection or scope is refused.
package enum StreamFilter {
    /// Why a filter is refused.
    ///
    /// - Parameter filter: The value of the request.
    /// - Returns: A sentence; nil if the filter is empty or selects all changes.
    package static func refusal(of filter: ByteView) -> String? {
        guard !filter.isEmpty else { return nil }
        guard case .object(let members) = JSONValue.parse(filter) else {
            return "The filter of a stream has to be a JSON object."
        }
        guard let first = members.first(where: { !selectsAll($0) }) else { return nil }
        return "Filters of streams need collections, which are not supported: \(first.name)."
    }

    private static func selectsAll(_ member: JSONValue.Member) -> Bool {
        // Numbers are hexadecimal text; that of the default scope, too, is 0.
        let zero = JSONValue.string("0")
        return switch member.name {
        // Without an effect: a consumer that lacks purged deletions rolls back to zero.
        case "purge_seqno": true
        case "collections": member.value == .array([zero])
        case "scope", "uid": member.value == zero
        default: false
        }
    }
}
