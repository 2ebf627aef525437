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
                (.temporaryFailure, request.command.isMutation ? RoomText.full : nil)
            case .writeInProgress: (outstanding(request, .syncWriteInProgress), nil)
            case .writeRecommitting: (outstanding(request, .syncWriteRecommitInProgress), nil)
            case .durabilityLevelInvalid:
                (.durabilityInvalidLevel, "The bucket has no disk to persist to.")
            case .durabilityImpossible:
                (.durabilityImpossible, "Too few nodes have a copy for a durable write.")
            case .durabilityAmbiguous: (.syncWriteAmbiguous, nil)
            }
        answer(status, to: request.replyTo, because: reason)
    }

    /// The status for a key with a pending durable write.
    ///
    /// A client that did not agree to this status gets one that makes it retry.
    private func outstanding(_ request: CommandContext, _ status: Status) -> Status {
        let isKnown = features.contains(.syncReplication) || request.framing.durability != nil
        return isKnown ? status : .temporaryFailure
    }
}
