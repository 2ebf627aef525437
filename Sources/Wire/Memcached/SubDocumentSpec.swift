package import Bytes

/// The operation on one path of a sub-document request; the numbers are those of the single commands.
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
@usableFromInline
package struct PathFlags: OptionSet, Hashable, Sendable {
    @usableFromInline package let rawValue: UInt8

    @inlinable
    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Missing objects on the path are created.
    @inlinable package static var makesParents: PathFlags { PathFlags(rawValue: 0x01) }
    /// The path begins with the key of an extended attribute.
    @inlinable package static var attribute: PathFlags { PathFlags(rawValue: 0x04) }
    /// The value is a macro.
    @inlinable package static var expandsMacros: PathFlags { PathFlags(rawValue: 0x10) }
    /// The value is any bytes.
    @inlinable package static var binary: PathFlags { PathFlags(rawValue: 0x20) }
    @inlinable package static var all: PathFlags {
        [.makesParents, .attribute, .expandsMacros, .binary]
    }
}

/// The options of a whole sub-document request.
@usableFromInline
package struct DocumentFlags: OptionSet, Hashable, Sendable {
    @usableFromInline package let rawValue: UInt8

    @inlinable
    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// A missing document is created.
    @inlinable package static var makesDocument: DocumentFlags { DocumentFlags(rawValue: 0x01) }
    /// The document must not exist, and is created.
    @inlinable package static var adds: DocumentFlags { DocumentFlags(rawValue: 0x02) }
    /// A tombstone counts as a document.
    @inlinable package static var accessesDeleted: DocumentFlags { DocumentFlags(rawValue: 0x04) }
    /// A created document is a tombstone.
    @inlinable package static var createsAsDeleted: DocumentFlags { DocumentFlags(rawValue: 0x08) }
    /// A tombstone becomes a document, with its attributes.
    @inlinable package static var revives: DocumentFlags { DocumentFlags(rawValue: 0x10) }
    /// The lookup reads a replica.
    @inlinable package static var readsReplica: DocumentFlags { DocumentFlags(rawValue: 0x20) }
    @inlinable package static var all: DocumentFlags { DocumentFlags(rawValue: 0x3f) }
}

/// One path of a sub-document request; path and value are borrowed from the frame.
package struct SubDocumentSpec {
    package let operation: SubDocumentOperation
    package let flags: PathFlags
    package let path: ByteView
    /// Empty for lookups.
    package let value: ByteView
}
