import DivanClient
import Testing
import Wire

/// The decisions about retries, as a table.
@Suite struct RetryPolicyTests {
    private func decide(_ status: Status, isWrite: Bool) -> RetryPolicy.Decision {
        RetryPolicy.decide(.answered(status.rawValue), isWrite: isWrite)
    }

    @Test(arguments: [false, true])
    func temporaryRefusalIsRetriedForReadsAndWrites(isWrite: Bool) {
        let again: [Status] = [
            .temporaryFailure, .busy, .outOfMemory, .notInitialized, .syncWriteInProgress,
            .syncWriteRecommitInProgress, .locked,
        ]
        for status in again { #expect(decide(status, isWrite: isWrite) == .again, "\(status)") }
        let done: [Status] = [
            .success, .subdocSuccessDeleted, .subdocMultiPathFailure,
            .subdocMultiPathFailureDeleted,
        ]
        for status in done { #expect(decide(status, isWrite: isWrite) == .done, "\(status)") }
        #expect(decide(.notMyVBucket, isWrite: isWrite) == .reroute)
        #expect(decide(.configOnly, isWrite: isWrite) == .reroute)
        #expect(decide(.noBucket, isWrite: isWrite) == .reselect)
        #expect(decide(.authStale, isWrite: isWrite) == .reconnect)
    }

    @Test func finalStatusFailsWithItsCode() {
        let table: [(Status, ClientError.Code)] = [
            (.keyNotFound, .notFound), (.notStored, .notFound), (.keyExists, .exists),
            (.tooBig, .tooBig), (.notLocked, .notLocked), (.deltaBadValue, .notANumber),
            (.durabilityImpossible, .durabilityImpossible),
            (.durabilityInvalidLevel, .durabilityUnsupported), (.syncWriteAmbiguous, .ambiguous),
            (.accessDenied, .authentication), (.unknownCommand, .unsupported),
            (.notSupported, .unsupported), (.internalError, .refused), (.invalid, .refused),
        ]
        for (status, code) in table {
            #expect(decide(status, isWrite: true) == .fail(code), "\(status)")
        }
        #expect(RetryPolicy.decide(.answered(0x7777), isWrite: false) == .fail(.refused))
    }

    /// A sub-document operation also succeeds on a tombstone, and each of its paths may fail alone.
    @Test func onlyStatusesOfCompleteOperationsEndWithSuccess() {
        let complete: [Status] = [
            .success, .subdocMultiPathFailure, .subdocSuccessDeleted,
            .subdocMultiPathFailureDeleted,
        ]
        for status in Status.allCases {
            let isDone = decide(status, isWrite: true) == .done
            #expect(isDone == complete.contains(status), "\(status)")
        }
    }

    @Test func lostWriteIsAmbiguousOnlyIfItWasSent() {
        #expect(RetryPolicy.decide(.lost(hadLeft: true), isWrite: true) == .fail(.ambiguous))
        #expect(RetryPolicy.decide(.lost(hadLeft: false), isWrite: true) == .again)
        #expect(RetryPolicy.decide(.lost(hadLeft: true), isWrite: false) == .again)
        #expect(RetryPolicy.decide(.lost(hadLeft: false), isWrite: false) == .again)
    }

    @Test func unlockIsNotRetriedWhenLocked() {
        let ending = RetryPolicy.Ending.answered(Status.locked.rawValue)
        #expect(RetryPolicy.decide(ending, isWrite: true, waitsForLock: false) == .fail(.locked))
    }

    @Test func backOffGrowsToItsMaximum() {
        let waits = (2...10).map { RetryPolicy.wait(beforeAttempt: $0) / 1_000_000 }
        #expect(waits == [1, 2, 5, 10, 20, 50, 100, 100, 100])
        let connects = (1...8).map { RetryPolicy.waitToConnect(failures: $0) / 1_000_000 }
        #expect(connects == [10, 20, 50, 100, 200, 500, 500, 500])
    }
}
