internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Agreeing with the active copy on where to begin.
extension ReplicationConsumer {
    /// Asks for a vBucket's changes, as soon as the copy can take any.
    func ask(_ stream: IncomingStream, _ output: ByteWriter) {
        guard stream.phase == .waiting else { return }
        let (standing, isLoaded) = stream.vBucket.withCore { core in
            (core.follows(stream.fence) ? core.copyStanding : nil, core.isLoaded)
        }
        let address = stream.address
        guard let standing else {
            if !isLoaded, let disk = stream.bucket.disk {
                guard !stream.awaitsLoading else { return }
                stream.awaitsLoading = true
                let lane = service.lanes.nonIO.lane
                disk.warmup.whenLoaded(address.vBucket) { [letters] completion in
                    if case .ready = completion { return letters.put(.loaded(address)) }
                    // It may be read later.
                    lane.post(after: ReplicationConsumer.unreadablePause) {
                        letters.put(.loaded(address))
                    }
                }
            } else {
                // Sealed, or not yet what the map made of it.
                askLater(stream)
            }
            return
        }
        perform(stream.asks(from: standing), stream, output)
    }

    func askLater(_ stream: IncomingStream) {
        ask(stream, after: stream.backoffNanoseconds)
        stream.refusals += 1
    }

    private static var unreadablePause: UInt64 { 2_000_000_000 }

    private func ask(_ stream: IncomingStream, after nanoseconds: UInt64) {
        stream.phase = .waiting
        let address = stream.address
        service.lanes.nonIO.lane.post(after: nanoseconds) { [letters] in
            letters.put(.ask(address))
        }
    }

    /// Leaves the connection to the others for a while: what keeps this copy from going on keeps
    /// nobody else.
    func giveWay(_ stream: IncomingStream, for nanoseconds: UInt64, _ output: ByteWriter) {
        guard stream.phase == .streaming else { return }
        NodeStreamEncoder.closeStream(at: stream.address, to: output)
        ask(stream, after: nanoseconds)
    }

    private func perform(
        _ step: ReplicaStream.Step,
        _ stream: IncomingStream,
        _ output: ByteWriter
    ) {
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
                to: output
            )
        case .rewind: reset(stream)
        case .follow, .askLog, .stop: askLater(stream)
        }
    }

    func answered(
        _ address: NodeStreamAddress,
        _ number: UInt64,
        _ answer: NodeStreamAnswer,
        _ output: ByteWriter
    ) {
        guard let stream = streams[address], stream.phase == .asked, stream.asked == number
        else { return }
        switch answer {
        case .accepted(let high, let log):
            guard case .follow = stream.machine.accepted(log) else { return askLater(stream) }
            guard stream.begin(log, high: high) else {
                NodeStreamEncoder.closeStream(at: address, to: output)
                return askLater(stream)
            }
            link.works()
            stream.acknowledged = nil
            letters.put(.persisted(address))
        case .rollback(let seqno, let log):
            var step = stream.machine.rolledBack(to: seqno)
            if case .askLog = step { step = stream.machine.told(log) }
            perform(step, stream, output)
        case .refused(let status):
            _ = stream.machine.refused()
            let what = "\(source) refuses \(address.vBucket): \(status.name)"
            service.environment.trace.debug("replication", what)
            askLater(stream)
        }
    }

    func ended(_ stream: IncomingStream, _ reason: DCPStreamEnd?, _ output: ByteWriter) {
        switch stream.machine.ended(reason) {
        // What cannot be read now cannot be read in a moment either; each try costs a whole scan.
        case .ask where reason == .backfillFailed: ask(stream, after: Self.unreadablePause)
        case .ask:
            stream.phase = .waiting
            ask(stream, output)
        default: askLater(stream)
        }
    }

    // MARK: Beginning anew

    /// The copy has what the active one never had: it gives up all of it, and is built anew.
    ///
    /// That costs a whole copy where asking for the keys in question would do; this is yet to come.
    private func reset(_ stream: IncomingStream) {
        stream.phase = .resetting
        let address = stream.address
        let (name, alone) = (stream.bucket.name, stream.machine.changesAlone)
        if alone > 0 { service.discarded.withLock { $0[name, default: 0] += alone } }
        service.environment.trace.info(
            "replication",
            "\(address.vBucket) of \(stream.bucket.name) is built anew from \(source)"
        )
        service.reset(address.vBucket, of: stream.bucket, fence: stream.fence) { [letters] in
            letters.put(.reset(address))
        }
    }

    func wasReset(_ address: NodeStreamAddress, _ output: ByteWriter) {
        guard let stream = streams[address], stream.phase == .resetting else { return }
        stream.phase = .waiting
        ask(stream, output)
    }
}
