package import Bytes

/// The requirement of a change on the present version of its object, so that the change cannot overwrite
/// a version that its author has not seen.
package enum Precondition<Version: Hashable & Sendable>: Hashable, Sendable {
    /// The change is applied to any version.
    case any
    /// The object does not exist.
    case absent
    /// The object has this version.
    case version(Version)

    /// Whether the present version, nil if the object does not exist, permits the change.
    package func permits(_ present: Version?) -> Bool {
        switch self {
        case .any: true
        case .absent: present == nil
        case .version(let version): present == version
        }
    }
}

extension Precondition: Coded where Version: Coded {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .any: writer.kind(0)
        case .absent: writer.kind(1)
        case .version(let version): writer.kind(2, version)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("precondition") {
        case 0: self = .any
        case 1: self = .absent
        case 2: self = .version(try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}
