internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Wire

/// Agreement with the active copy on the start of a stream.
extension ReplicationConsumer {
    /// Requests a vBucket's changes as soon as the copy can apply them.
    func requestStream(_ stream: IncomingStream) {
        guard stream.phase == .waiting else { return }
        let (standing, isLoaded) = stream.vBucket.withCore { core in
            (core.follows(stream.fence) ? core.resumePoint : nil, core.isLoaded)
        }
        let address = stream.address
        guard let standing else {
            if !isLoaded, let disk = stream.bucket.disk {
                guard !stream.awaitsLoading else { return }
                stream.awaitsLoading = true
                let lane = service.lanes.nonIO.lane
                disk.warmup.whenLoaded(address.vBucket) { [events] completion in
                    if case .ready = completion { return events.put(.loaded(address)) }
                    // It may become readable later.
                    lane.post(after: ReplicationConsumer.unreadablePause) {
                        events.put(.loaded(address))
                    }
                }
            } else {
                // The copy is sealed, or does not have the map's state yet.
                retryLater(stream)
            }
            return
        }
        perform(stream.request(from: standing), stream)
    }

    func retryLater(_ stream: IncomingStream) {
        requestStream(stream, after: stream.backoffNanoseconds)
        stream.refusals += 1
    }

    private static var unreadablePause: UInt64 { 2_000_000_000 }

    private func requestStream(_ stream: IncomingStream, after nanoseconds: UInt64) {
        stream.phase = .waiting
        events.put(.ask(stream.address), after: nanoseconds, on: service.lanes.nonIO)
    }

    /// Closes a stream for a while, so that its blocked copy does not block the other vBuckets.
    func suspend(_ stream: IncomingStream, for nanoseconds: UInt64) {
        guard stream.phase == .streaming else { return }
        NodeStreamEncoder.closeStream(at: stream.address, to: outbox)
        requestStream(stream, after: nanoseconds)
    }

    private func perform(_ step: ReplicaStream.Step, _ stream: IncomingStream) {
        switch step {
        case .ask(let request):
            stream.phase = .asked
            lastRequest += 1
            stream.asked = lastRequest
            NodeStreamEncoder.append(
                request,
                fence: stream.fence,
                number: lastRequest,
                at: stream.address,
                to: outbox
            )
        case .rewind: reset(stream)
        case .follow, .askLog, .stop: retryLater(stream)
        }
    }

    func handleAnswer(
        _ address: NodeStreamAddress,
        _ number: UInt64,
        answer: NodeStreamAnswer
    ) {
        guard let stream = streams[address], stream.phase == .asked, stream.asked == number
        else { return }
        switch answer {
        case .accepted(let high, let log):
            guard case .follow = stream.machine.accepted(log) else { return retryLater(stream) }
            guard stream.begin(log, high: high) else {
                NodeStreamEncoder.closeStream(at: address, to: outbox)
                return retryLater(stream)
            }
            link.resetFailures()
            stream.acknowledged = nil
            events.put(.persisted(address))
        case .rollback(let seqno, let log):
            var step = stream.machine.rolledBack(to: seqno)
            if case .askLog = step { step = stream.machine.told(log) }
            perform(step, stream)
        case .refused(let status):
            _ = stream.machine.refused()
            let what = "Node \(source) refused the stream of \(address.vBucket): \(status.name)"
            service.environment.trace.debug("replication", what)
            retryLater(stream)
        }
    }

    func handleEnd(_ stream: IncomingStream, _ reason: DCPStreamEnd?) {
        switch stream.machine.ended(reason) {
        // An unreadable block stays unreadable for a while, and each attempt costs a whole scan.
        case .ask where reason == .backfillFailed:
            requestStream(stream, after: Self.unreadablePause)
        case .ask:
            stream.phase = .waiting
            requestStream(stream)
        default: retryLater(stream)
        }
    }

    // MARK: Rebuilding

    /// Discards the copy and rebuilds it: it has changes that the active copy never had.
    ///
    /// This transfers the whole copy. Asking only for the affected keys would be cheaper; it is not
    /// implemented.
    private func reset(_ stream: IncomingStream) {
        stream.phase = .resetting
        let address = stream.address
        let (name, alone) = (stream.bucket.name, stream.machine.changesAlone)
        if alone > 0 { service.discarded.withLock { $0[name, default: 0] += alone } }
        service.environment.trace.info(
            "replication",
            bucket: stream.bucket.name,
            "Rebuilding \(address.vBucket) of bucket \(stream.bucket.name) from node \(source)"
        )
        service.reset(address.vBucket, of: stream.bucket, fence: stream.fence) { [events] in
            events.put(.reset(address))
        }
    }

    func handleReset(_ address: NodeStreamAddress) {
        guard let stream = streams[address], stream.phase == .resetting else { return }
        stream.phase = .waiting
        requestStream(stream)
    }
}
