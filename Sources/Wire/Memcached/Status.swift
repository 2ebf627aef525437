/// The statuses of responses by name and number.
package enum Status: UInt16, CaseIterable, Sendable {
    case success = 0x00
    case keyNotFound = 0x01
    case keyExists = 0x02
    case tooBig = 0x03
    case invalid = 0x04
    case notStored = 0x05
    case deltaBadValue = 0x06
    case notMyVBucket = 0x07
    case noBucket = 0x08
    case locked = 0x09
    case configOnly = 0x0d
    case notLocked = 0x0e
    case authStale = 0x1f
    case authError = 0x20
    case authContinue = 0x21
    case outOfRange = 0x22
    case rollback = 0x23
    case accessDenied = 0x24
    case notInitialized = 0x25

    case unknownFrameInfo = 0x80
    case unknownCommand = 0x81
    case outOfMemory = 0x82
    case notSupported = 0x83
    case internalError = 0x84
    case busy = 0x85
    case temporaryFailure = 0x86
    case xattrInvalid = 0x87
    case unknownCollection = 0x88
    case unknownScope = 0x8c

    case durabilityInvalidLevel = 0xa0
    case durabilityImpossible = 0xa1
    case syncWriteInProgress = 0xa2
    case syncWriteAmbiguous = 0xa3
    case syncWriteRecommitInProgress = 0xa4
    case rangeScanCancelled = 0xa5
    case rangeScanMore = 0xa6
    case rangeScanComplete = 0xa7
    case vBucketUUIDMismatch = 0xa8

    case subdocPathNotFound = 0xc0
    case subdocPathMismatch = 0xc1
    case subdocPathInvalid = 0xc2
    case subdocPathTooBig = 0xc3
    case subdocDocumentTooDeep = 0xc4
    case subdocValueCannotInsert = 0xc5
    case subdocDocumentNotJSON = 0xc6
    case subdocNumberOutOfRange = 0xc7
    case subdocDeltaInvalid = 0xc8
    case subdocPathExists = 0xc9
    case subdocValueTooDeep = 0xca
    case subdocInvalidCombination = 0xcb
    case subdocMultiPathFailure = 0xcc
    case subdocSuccessDeleted = 0xcd
    case subdocXattrInvalidFlags = 0xce
    case subdocXattrInvalidKeys = 0xcf
    case subdocXattrUnknownMacro = 0xd0
    case subdocXattrUnknownVirtual = 0xd1
    case subdocXattrCannotModifyVirtual = 0xd2
    case subdocMultiPathFailureDeleted = 0xd3
    case subdocXattrInvalidOrder = 0xd4
    case subdocXattrUnknownVirtualMacro = 0xd5
    case subdocCanOnlyReviveDeleted = 0xd6
    case subdocDeletedCannotHaveValue = 0xd7
    case subdocFieldNotBinaryValue = 0xd8
}

extension Status {
    /// The status to send to a client without extended errors.
    ///
    /// Such a client does not know the statuses of locks; for a locked document, `temporaryFailure`
    /// makes it retry.
    package var withoutExtendedErrors: Status {
        switch self {
        case .locked, .notLocked: .temporaryFailure
        default: self
        }
    }

    /// A text for logs and for memcached tools, which print it.
    package var text: String { ErrorMap.entry(of: self).text }

    package var name: String { ErrorMap.entry(of: self).name }
}
