internal import Bytes
internal import Engine
internal import JSON
internal import Vocabulary
internal import Wire

extension Connection {
    /// STAT: one answer per line, and an empty one at the end.
    func stat(_ request: CommandContext) -> Execution {
        let bucket = selectedBucket
        let group = request.frame.key.text
        guard acceptsOptions(of: group, request) else { return .done }
        switch group {
        case "":
            for (name, value) in service.generalStats(of: bucket) { line(name, value, request) }
        case "memory":
            for (name, value) in service.memoryStats(of: bucket) { line(name, value, request) }
        case "uuid": line("uuid", bucket.uuid, request)
        case "vbucket": vBucketStates(copies(of: bucket), request)
        case "dcp":
            for (name, value) in service.changeStats(of: bucket) { line(name, value, request) }
        case let name where name == "dcpagg" || name.hasPrefix("dcpagg "):
            let separator = name.split(separator: " ", maxSplits: 1).dropFirst().first ?? ":"
            for (name, value) in service.changeTotals(of: bucket, separator: separator) {
                line(name, value, request)
            }
        case let name where name.hasPrefix("vbucket-") || name.hasPrefix("failovers"):
            guard vBucketLines(of: name, in: bucket, request) else { return .done }
        default:
            unknownGroup(request)
            return .done
        }
        ResponseEncoder.append(.success, to: output, replyTo: request.replyTo, value: .empty)
        return .done
    }

    /// Whether the request has no options, or those of its group.
    ///
    /// Tools state with `dcp` in which form the lines of a stream are sent; Divan has one form.
    private func acceptsOptions(of group: String, _ request: CommandContext) -> Bool {
        let value = request.frame.value
        if value.isEmpty || group == "dcp" && context.validator.isDocument(value) { return true }
        answer(.invalid, request, "Only the group dcp has options, as JSON.")
        return false
    }

    private func unknownGroup(_ request: CommandContext) {
        answer(.keyNotFound, request, "Unknown group of statistics.")
    }

    /// The lines of `vbucket-seqno`, `vbucket-details` or `failovers`, of all copies or of the one
    /// whose number follows the name.
    ///
    /// - Returns: Whether the group exists; if not, the refusal is sent.
    private func vBucketLines(
        of name: String,
        in bucket: OpenBucket,
        _ request: CommandContext
    ) -> Bool {
        let words = name.split(separator: " ", omittingEmptySubsequences: false)
        let send: (([VBucket], CommandContext) -> Void)? =
            switch words[0] {
            case "vbucket-seqno": vBucketSeqnos
            case "vbucket-details": vBucketDetails
            case "failovers": failoverLogs
            default: nil
            }
        guard let send, words.count <= 2 else {
            unknownGroup(request)
            return false
        }
        var listed = copies(of: bucket)
        if words.count == 2 {
            guard let number = UInt16(words[1]) else {
                answer(.invalid, request, "A vBucket's number is needed.")
                return false
            }
            listed = listed.filter { $0.withCore { $0.id.number == number } }
            guard !listed.isEmpty else {
                answerNotMyVBucket(request)
                return false
            }
        }
        send(listed, request)
        return true
    }

    private func line(_ name: String, _ value: String, _ request: CommandContext) {
        name.withView { name in
            value.withView { value in
                ResponseEncoder.append(
                    .success,
                    to: output,
                    replyTo: request.replyTo,
                    key: name,
                    value: value
                )
            }
        }
    }

    /// The vBuckets of which this node has a copy.
    private func copies(of bucket: OpenBucket) -> [VBucket] {
        bucket.engine.all.filter { $0.withCore { $0.ownership.exists } }
    }

    /// Sends the lines that `body` makes of each vBucket and its name.
    private func lines(
        _ listed: [VBucket],
        _ request: CommandContext,
        _ body: (String, inout VBucketCore) -> [(String, String)]
    ) {
        for vBucket in listed {
            let lines = vBucket.withCore { body("vb_\($0.id.number)", &$0) }
            for (name, value) in lines { line(name, value, request) }
        }
    }

    private func vBucketStates(_ listed: [VBucket], _ request: CommandContext) {
        lines(listed, request) { name, core in [(name, core.state.name)] }
    }

    private func vBucketSeqnos(_ listed: [VBucket], _ request: CommandContext) {
        lines(listed, request) { name, core in
            [
                ("\(name):high_seqno", String(core.highSeqno.value)),
                ("\(name):abs_high_seqno", String(core.highSeqno.value)),
                ("\(name):last_persisted_seqno", String(core.durableSeqno.value)),
                ("\(name):purge_seqno", String(core.purgeSeqno.value)),
                ("\(name):uuid", String(core.uuid.value)),
            ]
        }
    }

    /// GET_ALL_VB_SEQNOS: of all copies that are not dead, or of those in one state.
    func allSeqnos(_ request: CommandContext) {
        let extras = request.frame.extras
        let asked = extras.isEmpty ? 0 : extras.bigEndian(at: 0, as: UInt32.self)
        let state = UInt8(exactly: asked).flatMap(VBucketState.init(rawValue:))
        guard asked == 0 || state != nil else {
            return answer(.invalid, request, "Unknown vBucket state.")
        }
        guard extras.count < 8 || extras.bigEndian(at: 4, as: UInt32.self) == 0 else {
            return answer(.unknownCollection, request, "Only the default collection, 0, exists.")
        }
        let result = ByteWriter()
        let seesPrepares = features.contains(.syncReplication)
        for vBucket in selectedBucket.engine.all {
            vBucket.withCore { core in
                guard core.ownership.exists,
                    state.map({ $0 == core.state }) ?? (core.state != .dead)
                else { return }
                result.append(bigEndian: core.id.number)
                // A client without synchronous replication never gets the changes above it. It is
                // not known before every document is loaded.
                let visible = core.isLoaded ? core.highVisible : core.coveredSeqno
                result.append(bigEndian: (seesPrepares ? core.highSeqno : visible).value)
            }
        }
        respond(request, .success, value: result.view)
    }

    /// The histories of vBuckets, the newest first.
    private func failoverLogs(_ listed: [VBucket], _ request: CommandContext) {
        lines(listed, request) { name, core in
            let entries = core.failoverLog.entries
            return [("\(name):num_entries", String(entries.count))]
                + entries.enumerated().flatMap { index, entry in
                    [
                        ("\(name):\(index):id", String(entry.uuid.value)),
                        ("\(name):\(index):seq", String(entry.seqno.value)),
                    ]
                }
        }
    }

    private func vBucketDetails(_ listed: [VBucket], _ request: CommandContext) {
        lines(listed, request) { name, core in
            [
                (name, core.state.name),
                ("\(name):num_items", String(core.liveCount)),
                ("\(name):num_tombstones", String(core.tombstoneCount)),
                ("\(name):num_non_resident", String(core.ejectedCount)),
                ("\(name):high_seqno", String(core.highSeqno.value)),
                ("\(name):last_persisted_seqno", String(core.durableSeqno.value)),
                ("\(name):purge_seqno", String(core.purgeSeqno.value)),
                ("\(name):max_cas", String(core.clock.last.value)),
                ("\(name):uuid", String(core.uuid.value)),
                ("\(name):num_failover_entries", String(core.failoverLog.entries.count)),
            ]
        }
    }
}
