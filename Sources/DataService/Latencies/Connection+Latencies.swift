internal import Bytes
internal import Engine
internal import Seams
package import Vocabulary
internal import Wire

/// How long commands take: those of a turn together, those that waited one by one.
extension Connection {
    /// Records the commands of the turn that have not waited, or discards them without a bucket.
    ///
    /// They end now.
    /// One clock is read for all of them. It is the wall clock, whose begin of the turn is known.
    ///
    /// - Parameter bucket: The bucket of `traffic`.
    @inline(__always)
    func recordTally(of bucket: () -> OpenBucket?) {
        guard !context.tally.isEmpty else { return }
        guard let traffic else { return context.tally.removeAll { _, _ in } }
        let now = context.wallNanoseconds()
        // The clock may have been set back.
        let elapsed = now &- min(now, wallNanoseconds)
        if elapsed >= service.slowCommands.thresholdNanoseconds {
            logSlowTurn(of: bucket(), elapsed)
        }
        context.tally.removeAll { kind, count in
            traffic.latencies.record(kind, nanoseconds: elapsed, times: count)
        }
    }

    /// Logs the commands of the turn as slow.
    @inline(never)
    private func logSlowTurn(of bucket: OpenBucket?, _ elapsed: UInt64) {
        guard let bucket else { return }
        let now = context.monotonicNanoseconds()
        context.tally.visit { kind, count in
            service.slowCommands.note(kind, count: count, of: bucket, took: elapsed, at: now)
        }
    }

    /// The wait of a request that has not waited before: it does not end with the turn.
    func firstWait(of request: CommandContext, at now: UInt64) -> RequestWait {
        let kind = context.tally.kind(of: request.frame.header)
        var start = turnStart
        if !isTracingAgreed {
            let wall = context.wallNanoseconds()
            start = now - min(now, wall - min(wall, wallNanoseconds))
        }
        let engine = request.command.isKeyed ? bucket?.engine : nil
        let vBucket = engine.map { VBucketID(vBucketNumber(request.frame, $0)) }
        return RequestWait(kind: kind, vBucket: vBucket, start: start)
    }

    /// Records a request that has waited and is answered.
    func record(_ wait: RequestWait) {
        guard let bucket, let traffic else { return }
        let now = context.monotonicNanoseconds()
        let elapsed = now - min(now, wait.start)
        traffic.latencies.record(Int(wait.kind), nanoseconds: elapsed)
        guard elapsed >= service.slowCommands.thresholdNanoseconds else { return }
        var wait = wait
        wait.begin(.execution, at: now)
        service.slowCommands.note(wait, of: bucket, at: now)
    }
}

extension Completion {
    /// The cause of the wait, if only its end shows it.
    var cause: CommandPhase? {
        switch self {
        case .durable(_, let cause), .subDocument(.durable(_, _, let cause)): cause
        case .ready, .failed, .roomMade, .done, .admitted, .loggedIn, .subDocument: nil
        }
    }
}

extension Wait {
    /// The phase of a command that waits for it.
    var phase: CommandPhase {
        switch self {
        case .value, .metadata: .fetch
        case .warmup: .load
        case .handOver: .handOver
        case .room: .room
        }
    }
}

extension OpenBucket {
    /// The histograms of the bucket's latencies that are not empty.
    package var latencies: [LatencyReading] {
        let bucket = (name: "bucket", value: name)
        let commands = CommandKind.all.enumerated().compactMap { kind, command in
            counters.latencies.histogram(kind).map {
                LatencyReading(.commands, [bucket, ("opcode", command.name)], histogram: $0)
            }
        }
        return commands
            + Latency.allCases.compactMap { latency in
                counters.latencies.histogram(CommandKind.countMax + latency.rawValue).map {
                    let label = latency.label.map { [$0] } ?? []
                    return LatencyReading(latency.family, [bucket] + label, histogram: $0)
                }
            }
    }
}

extension TrafficCounters {
    /// Records a latency that is no command's, on any lane but a reactor's.
    func record(_ latency: Latency, nanoseconds: UInt64) {
        latencies.recordShared(CommandKind.countMax + latency.rawValue, nanoseconds: nanoseconds)
    }
}
