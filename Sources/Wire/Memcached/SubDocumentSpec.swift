package import Bytes

/// What one path of a sub-document request does; the numbers are those of the single commands.
package enum SubDocumentOperation: UInt8, CaseIterable, Sendable {
    /// The whole document, without its attributes.
    case getDocument = 0x00
    case setDocument = 0x01
    case deleteDocument = 0x04
    case get = 0xc5
    case exists = 0xc6
    case dictionaryAdd = 0xc7
    case dictionaryUpsert = 0xc8
    case delete = 0xc9
    case replace = 0xca
    case arrayPushLast = 0xcb
    case arrayPushFirst = 0xcc
    case arrayInsert = 0xcd
    case arrayAddUnique = 0xce
    case counter = 0xcf
    case getCount = 0xd2
    /// The value of an attribute becomes the body.
    case replaceBodyWithAttribute = 0xd3

    package var isMutation: Bool {
        switch self {
        case .getDocument, .get, .exists, .getCount: false
        default: true
        }
    }

    /// Concerns the document as a whole, so it has no path.
    package var isWholeDocument: Bool {
        switch self {
        case .getDocument, .setDocument, .deleteDocument: true
        default: false
        }
    }
}

/// The options of one path.
package struct PathFlags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Missing objects on the path are created.
    package static let makesParents = PathFlags(rawValue: 0x01)
    /// The path begins with the key of an extended attribute.
    package static let attribute = PathFlags(rawValue: 0x04)
    /// The value is a macro.
    package static let expandsMacros = PathFlags(rawValue: 0x10)
    /// The value is any bytes.
    package static let binary = PathFlags(rawValue: 0x20)
    package static let all: PathFlags = [.makesParents, .attribute, .expandsMacros, .binary]
}

/// The options of a whole sub-document request.
package struct DocumentFlags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// A missing document is created.
    package static let makesDocument = DocumentFlags(rawValue: 0x01)
    /// The document must not exist, and is created.
    package static let adds = DocumentFlags(rawValue: 0x02)
    /// A tombstone counts as a document.
    package static let accessesDeleted = DocumentFlags(rawValue: 0x04)
    /// A created document is a tombstone.
    package static let createsAsDeleted = DocumentFlags(rawValue: 0x08)
    /// A tombstone becomes a document, with its attributes.
    package static let revives = DocumentFlags(rawValue: 0x10)
    /// The lookup reads a replica.
    package static let readsReplica = DocumentFlags(rawValue: 0x20)
    package static let all = DocumentFlags(rawValue: 0x3f)
}

/// One path of a sub-document request; path and value are borrowed from the frame.
package struct SubDocumentSpec {
    package let operation: SubDocumentOperation
    package let flags: PathFlags
    package let path: ByteView
    /// Empty for lookups.
    package let value: ByteView

    package init(
        _ operation: SubDocumentOperation,
        _ flags: PathFlags,
        path: ByteView,
        value: ByteView = .empty
    ) {
        self.operation = operation
        self.flags = flags
        self.path = path
        self.value = value
    }
}
