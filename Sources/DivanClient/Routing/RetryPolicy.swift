package import Wire

/// And again? What becomes of an operation after one attempt at it.
///
/// Pure: statuses and counts in, a decision out. The operation's deadline is not its business; who
/// carries out `again` looks at the clock.
///
/// - A write is tried again only where the server said that it did not do it, or where it never
///   left: a SET sent twice could undo what somebody else stored in between.
package enum RetryPolicy {
    /// How an attempt ended.
    package enum Ending: Hashable, Sendable {
        case answered(UInt16)
        /// The connection ended before the answer came.
        case lost(hadLeft: Bool)
    }

    package enum Decision: Hashable, Sendable {
        case done
        /// Go where a map newer than the one used sends it, at once; wait where there is none.
        case reroute
        /// The same again after a wait.
        case again
        /// As `again`, once the connection has selected its bucket anew.
        case reselect
        /// As `again`, on a connection that has logged in anew.
        case reconnect
        case fail(ClientError.Code)
    }

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
        case .success: .done
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

    /// A durable write of the document has to end first; often it is one of our own.
    package static func waitsForAnother(_ number: UInt16) -> Bool {
        switch Status(rawValue: number) {
        case .syncWriteInProgress, .syncWriteRecommitInProgress: true
        default: false
        }
    }

    /// What a status means to the caller when nothing more is tried.
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

    /// Nanoseconds to wait before attempt `number` (2 is the first repetition): 1, 2, 5, 10, 20, 50
    /// and then always 100 milliseconds.
    package static func wait(beforeAttempt number: Int) -> UInt64 {
        let steps: [UInt64] = [1, 2, 5, 10, 20, 50, 100]
        return steps[min(max(number - 2, 0), steps.count - 1)] * 1_000_000
    }

    /// Nanoseconds between one attempt to connect to a node and the next, after `failures` in a row.
    package static func waitToConnect(failures: Int) -> UInt64 {
        let steps: [UInt64] = [10, 20, 50, 100, 200, 500]
        return steps[min(max(failures - 1, 0), steps.count - 1)] * 1_000_000
    }
}
