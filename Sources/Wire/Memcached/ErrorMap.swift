/// The response to GET_ERROR_MAP: describes every status, so that clients can handle unknown ones.
///
/// - The version never exceeds the requested one: libcouchbase would refuse to connect.
/// - Every entry has `name`, `desc` and `attrs`, and the map a `revision`: the C++ client crashes
///   if one is missing.
package enum ErrorMap {
    /// The attributes are those of Couchbase's error map format, separated by spaces.
    typealias Entry = (name: String, text: String, attributes: String)

    /// The map as JSON; nil for version 0, which does not exist (answer 0x04).
    package static func json(versionAsked: UInt16) -> [UInt8]? {
        guard versionAsked > 0 else { return nil }
        return versionAsked == 1 ? first : second
    }

    private static let first = render(version: 1)
    private static let second = render(version: 2)

    private static func render(version: Int) -> [UInt8] {
        let entries = Status.allCases.map { status in
            let entry = entry(of: status)
            let attributes = entry.attributes.split(separator: " ").map { "\"\($0)\"" }
            return "\"\(String(status.rawValue, radix: 16))\":{\"name\":\"\(entry.name)\","
                + "\"desc\":\"\(entry.text)\",\"attrs\":[\(attributes.joined(separator: ","))]}"
        }
        let text =
            "{\"version\":\(version),\"revision\":1,\"errors\":{"
            + entries.joined(separator: ",") + "}}"
        return Array(text.utf8)
    }

    static func entry(of status: Status) -> Entry {
        switch status.rawValue {
        case 0x00..<0x80: general(status)
        case 0x80..<0xc0: extended(status)
        default: subdocument(status)
        }
    }

    private static func general(_ status: Status) -> Entry {
        switch status {
        case .success: ("SUCCESS", "Success", "success")
        case .keyNotFound: ("KEY_ENOENT", "Not found", "item-only")
        case .keyExists: ("KEY_EEXISTS", "Data exists for key", "item-only")
        case .tooBig: ("E2BIG", "Too large", "item-only invalid-input")
        case .invalid: ("EINVAL", "Invalid arguments", "internal invalid-input")
        case .notStored: ("NOT_STORED", "Not stored", "item-only")
        case .deltaBadValue:
            ("DELTA_BADVAL", "Non-numeric value for a counter", "item-only invalid-input")
        case .notMyVBucket:
            ("NOT_MY_VBUCKET", "The vBucket is elsewhere", "fetch-config invalid-input")
        case .noBucket: ("NO_BUCKET", "No bucket is selected", "conn-state-invalidated")
        case .locked: ("LOCKED", "The document is locked", "item-locked item-only retry-now")
        case .configOnly: ("CONFIG_ONLY", "The bucket has no data on this node", "fetch-config")
        case .notLocked: ("NOT_LOCKED", "The document is not locked", "item-only")
        case .authStale: ("AUTH_STALE", "Authenticate again", "conn-state-invalidated auth")
        case .authError: ("AUTH_ERROR", "Auth failure", "conn-state-invalidated auth")
        case .authContinue: ("AUTH_CONTINUE", "Continue the exchange", "special-handling")
        case .outOfRange: ("ERANGE", "Outside the range", "invalid-input")
        case .rollback: ("ROLLBACK", "Rollback to the seqno given", "dcp special-handling")
        case .accessDenied: ("EACCESS", "Access denied", "support")
        default: ("NOT_INITIALIZED", "The node is not ready yet", "temp retry-later")
        }
    }

    private static func extended(_ status: Status) -> Entry {
        switch status {
        case .unknownFrameInfo:
            ("UNKNOWN_FRAME_INFO", "Unknown framing extras", "support invalid-input")
        case .unknownCommand: ("UNKNOWN_COMMAND", "Unknown command", "support")
        case .outOfMemory: ("ENOMEM", "Out of memory", "temp retry-later")
        case .notSupported: ("NOT_SUPPORTED", "Not supported", "support")
        case .internalError: ("EINTERNAL", "Internal error", "internal")
        case .busy: ("EBUSY", "Busy", "temp retry-later")
        case .temporaryFailure: ("ETMPFAIL", "Temporary failure", "temp retry-later")
        case .xattrInvalid:
            ("XATTR_EINVAL", "Invalid extended attributes", "item-only invalid-input")
        case .unknownCollection: ("UNKNOWN_COLLECTION", "Unknown collection", "item-only")
        case .unknownScope: ("UNKNOWN_SCOPE", "Unknown scope", "item-only")
        case .durabilityInvalidLevel:
            ("DURABILITY_INVALID_LEVEL", "Invalid durability level", "invalid-input")
        case .durabilityImpossible:
            ("DURABILITY_IMPOSSIBLE", "Too few nodes for this durability", "item-only")
        case .syncWriteInProgress:
            ("SYNC_WRITE_IN_PROGRESS", "A durable write is under way", "item-only retry-later")
        case .syncWriteAmbiguous:
            ("SYNC_WRITE_AMBIGUOUS", "The durable write may or may not hold", "item-only")
        case .syncWriteRecommitInProgress:
            (
                "SYNC_WRITE_RE_COMMIT_IN_PROGRESS",
                "A durable write is being committed again",
                "item-only retry-later"
            )
        case .rangeScanCancelled: ("RANGE_SCAN_CANCELLED", "Range scan cancelled", "item-only")
        case .rangeScanMore: ("RANGE_SCAN_MORE", "Range scan has more", "success")
        case .rangeScanComplete: ("RANGE_SCAN_COMPLETE", "Range scan complete", "success")
        default: ("VBUUID_NOT_EQUAL", "The vBucket has another history", "item-only")
        }
    }

    private static func subdocument(_ status: Status) -> Entry {
        let (name, text): (String, String) =
            switch status {
            case .subdocPathNotFound: ("PATH_ENOENT", "Path not found")
            case .subdocPathMismatch: ("PATH_MISMATCH", "Path does not match the document")
            case .subdocPathInvalid: ("PATH_EINVAL", "Invalid path")
            case .subdocPathTooBig: ("PATH_E2BIG", "Path too long")
            case .subdocDocumentTooDeep: ("DOC_E2DEEP", "Document too deep")
            case .subdocValueCannotInsert: ("VALUE_CANTINSERT", "Value cannot be inserted")
            case .subdocDocumentNotJSON: ("DOC_NOT_JSON", "Document is not JSON")
            case .subdocNumberOutOfRange: ("NUM_ERANGE", "Existing number out of range")
            case .subdocDeltaInvalid: ("DELTA_EINVAL", "Invalid delta")
            case .subdocPathExists: ("PATH_EEXISTS", "Path exists already")
            case .subdocValueTooDeep: ("VALUE_ETOODEEP", "Value too deep")
            case .subdocInvalidCombination: ("INVALID_COMBO", "Invalid combination of operations")
            case .subdocMultiPathFailure: ("MULTI_PATH_FAILURE", "One or more paths failed")
            case .subdocSuccessDeleted: ("SUCCESS_DELETED", "Success on a deleted document")
            case .subdocXattrInvalidFlags: ("XATTR_INVALID_FLAG_COMBO", "Invalid flags for xattrs")
            case .subdocXattrInvalidKeys: ("XATTR_INVALID_KEY_COMBO", "Invalid xattr keys")
            case .subdocXattrUnknownMacro: ("XATTR_UNKNOWN_MACRO", "Unknown macro")
            case .subdocXattrUnknownVirtual: ("XATTR_UNKNOWN_VATTR", "Unknown virtual xattr")
            case .subdocXattrCannotModifyVirtual:
                ("XATTR_CANT_MODIFY_VATTR", "Virtual xattrs cannot be changed")
            case .subdocMultiPathFailureDeleted:
                ("MULTI_PATH_FAILURE_DELETED", "One or more paths failed on a deleted document")
            case .subdocXattrInvalidOrder: ("INVALID_XATTR_ORDER", "Xattrs must come first")
            case .subdocXattrUnknownVirtualMacro:
                ("XATTR_UNKNOWN_VATTR_MACRO", "Unknown virtual macro")
            case .subdocCanOnlyReviveDeleted:
                ("CAN_ONLY_REVIVE_DELETED_DOCUMENTS", "Only deleted documents can be revived")
            case .subdocFieldNotBinaryValue:
                ("FIELD_NOT_BINARY_VALUE", "The value is not a binary one")
            default: ("DELETED_DOCUMENT_CANT_HAVE_VALUE", "A deleted document has no value")
            }
        let isSuccess = status == .subdocSuccessDeleted
        return ("SUBDOC_" + name, text, isSuccess ? "success subdoc" : "subdoc item-only")
    }
}
