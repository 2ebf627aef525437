internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    /// Answers a refused operation: the one switch from refusals to statuses.
    func answer(_ refusal: DocumentRefusal, _ request: CommandContext) {
        if refusal == .notMyVBucket { return answerNotMyVBucket(request) }
        let (status, reason): (Status, String?) =
            switch refusal {
            case .notMyVBucket: (.notMyVBucket, nil)
            case .notFound: (.keyNotFound, nil)
            case .exists: (.keyExists, nil)
            case .locked: (.locked, nil)
            case .notLocked: (.notLocked, nil)
            case .notStored: (.notStored, nil)
            case .notANumber: (.deltaBadValue, nil)
            case .tooLarge, .exceedsMemory: (.tooBig, nil)
            case .temporaryFailure:
                (.temporaryFailure, temporaryFailureReason(request))
            case .writeInProgress: (outstanding(request, .syncWriteInProgress), nil)
            case .writeRecommitting: (outstanding(request, .syncWriteRecommitInProgress), nil)
            case .durabilityLevelInvalid:
                (.durabilityInvalidLevel, "The bucket has no disk to persist to.")
            case .durabilityImpossible:
                (.durabilityImpossible, "Too few nodes have a copy for a durable write.")
            case .durabilityAmbiguous: (.syncWriteAmbiguous, nil)
            }
        answer(status, request, reason)
    }

    /// Why a request is to be retried later; nil without a known reason.
    private func temporaryFailureReason(_ request: CommandContext) -> String? {
        let engine = selectedBucket.engine
        let number = vBucketNumber(request.frame, engine)
        let holds = engine[number]?.withCore { $0.writeHolds } ?? []
        if let reason = holds.reason { return reason }
        return request.command.isMutation ? RoomText.full : nil
    }

    /// The status for a key with a pending durable write.
    ///
    /// A client that did not agree to this status gets one that makes it retry.
    private func outstanding(_ request: CommandContext, _ status: Status) -> Status {
        let isKnown = features.contains(.syncReplication) || request.framing.durability != nil
        return isKnown ? status : .temporaryFailure
    }
}

extension WriteHolds {
    /// The reason of a refusal for clients; nil without a hold.
    var reason: String? {
        contains(.nodeStop)
            ? "The node is stopping, and refuses writes. Retry until it serves again, or another node "
                + "serves the vBucket." : nil
    }
}
