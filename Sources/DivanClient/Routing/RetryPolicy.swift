package import Wire

/// Decides what happens to an operation after an attempt.
///
/// Pure: statuses and counts in, a decision out. `ClientCore`, not this policy, checks the
/// operation's deadline.
///
/// - A write is retried only if the server has answered that it did not carry it out, or if it was
///   never sent: a SET sent twice could undo a write of another client in between.
package enum RetryPolicy {
    /// The end of an attempt.
    package enum Ending: Hashable, Sendable {
        case answered(UInt16)
        /// The connection ended before the answer came.
        case lost(hadLeft: Bool)
    }

    package enum Decision: Hashable, Sendable {
        case done
        /// Dispatch again by a newer map: at once, or when it arrives.
        case reroute
        /// Retry after a back-off.
        case again
        /// As `again`, after the connection has selected its bucket again.
        case reselect
        /// As `again`, on a new connection.
        case reconnect
        case fail(ClientError.Code)
    }

    /// Decides about an attempt; does not retry a locked document unless `waitsForLock`.
    package static func decide(
        _ ending: Ending,
        isWrite: Bool,
        waitsForLock: Bool = true
    ) -> Decision {
        switch ending {
        case .lost(let hadLeft): hadLeft && isWrite ? .fail(.ambiguous) : .again
        case .answered(let number):
            Status(rawValue: number).map { decide($0, waitsForLock: waitsForLock) }
                ?? .fail(.refused)
        }
    }

    private static func decide(_ status: Status, waitsForLock: Bool) -> Decision {
        switch status {
        // Of the last two, the answer says which paths failed.
        case .success, .subdocSuccessDeleted, .subdocMultiPathFailure,
            .subdocMultiPathFailureDeleted:
            .done
        case .notMyVBucket, .configOnly: .reroute
        case .temporaryFailure, .busy, .outOfMemory, .notInitialized, .syncWriteInProgress,
            .syncWriteRecommitInProgress:
            .again
        case .locked: waitsForLock ? .again : .fail(.locked)
        case .noBucket: .reselect
        case .authStale: .reconnect
        default: .fail(code(of: status))
        }
    }

    /// Whether a status means that a durable write of the document has to end first.
    package static func waitsForAnother(_ number: UInt16) -> Bool {
        switch Status(rawValue: number) {
        case .syncWriteInProgress, .syncWriteRecommitInProgress: true
        default: false
        }
    }

    /// The error code for a status that is not retried any more.
    package static func code(of status: Status) -> ClientError.Code {
        switch status {
        case .keyNotFound, .notStored: .notFound
        case .keyExists: .exists
        case .locked: .locked
        case .notLocked: .notLocked
        case .tooBig: .tooBig
        case .deltaBadValue: .notANumber
        case .temporaryFailure, .busy, .outOfMemory, .notInitialized: .temporaryFailure
        case .syncWriteInProgress, .syncWriteRecommitInProgress: .durableWriteInProgress
        case .syncWriteAmbiguous: .ambiguous
        case .durabilityImpossible: .durabilityImpossible
        case .durabilityInvalidLevel: .durabilityUnsupported
        case .authError, .accessDenied, .authStale: .authentication
        case .noBucket: .noBucket
        case .notSupported, .unknownCommand, .unknownFrameInfo: .unsupported
        case .vBucketUUIDMismatch: .historyChanged
        default: .refused
        }
    }

    /// Nanoseconds to wait before attempt `number` (2 is the first retry): 1, 2, 5, 10, 20, 50 and
    /// then always 100 milliseconds.
    package static func wait(beforeAttempt number: Int) -> UInt64 {
        let steps: [UInt64] = [1, 2, 5, 10, 20, 50, 100]
        return steps[min(max(number - 2, 0), steps.count - 1)] * 1_000_000
    }

    /// Nanoseconds to wait before connecting to a node again, after `failures` in a row: 10 to 500
    /// milliseconds.
    package static func waitToConnect(failures: Int) -> UInt64 {
        let steps: [UInt64] = [10, 20, 50, 100, 200, 500]
        return steps[min(max(failures - 1, 0), steps.count - 1)] * 1_000_000
    }
}
