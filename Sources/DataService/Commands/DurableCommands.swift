internal import Engine
internal import Vocabulary

/// Writes that are answered only after enough copies have acknowledged them.
extension Connection {
    /// Suspends a prepared write until it is decided.
    func waitForCopies(
        _ request: CommandContext,
        _ prepared: Stored,
        of document: DocumentAddress,
        in bucket: OpenBucket
    ) -> Execution {
        wait(request, .replicate) { done in
            bucket.syncWrites.wait(for: prepared.seqno, of: document.id) { done(.durable($0, $1)) }
        }
    }

    /// Answers a request that has been decided: the write was applied, so its outcome is reported even
    /// if the bucket has been deleted since.
    ///
    /// - Returns: Whether it was answered; otherwise it has to be attempted again.
    @inline(never)
    func answersDecided(_ request: CommandContext, _ completion: Completion?) -> Bool {
        switch completion {
        case .durable(let end, _): answerDurable(request, end)
        case .subDocument(let end): answerSubDocument(request, end)
        case .ready, .admitted, .failed, .roomMade, .done, .loggedIn, nil: return false
        }
        return true
    }

    /// Answers a durable write that has been decided.
    ///
    /// Without the lease a commit is answered as ambiguous. The network may deliver the
    /// acknowledgements of other copies after their nodes have failed this node over: the write is
    /// kept then, but this node's UUID and seqno are not those of the new active copy.
    func answerDurable(_ request: CommandContext, _ end: SyncWriteOutcome) {
        guard case .committed(let cas, let seqno, let uuid, let number) = end,
            mayAnswerForActiveCopy
        else { return answer(.durabilityAmbiguous, request) }
        guard !request.command.isQuiet else { return }
        answerStored(request, cas: cas, uuid: uuid, seqno: seqno, number: number)
    }
}
