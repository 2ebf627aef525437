/// Why one path of a sub-document command failed: its status in the answer.
///
/// - The SDKs abort on a status that is not in their list, so no other number may be a path's status.
package enum PathFailure: UInt16, Error, Sendable, CaseIterable {
    /// The command is invalid for any document: an empty path where none is allowed, or no value.
    case invalidArguments = 0x04
    /// The document has no value at the path.
    case notFound = 0xc0
    /// A component of the path does not fit the value that it is applied to: a key to an array, an
    /// index to an object, anything to a scalar; or the value at the path is of the wrong kind.
    case mismatch = 0xc1
    /// The text is not a path, or its last component is invalid for the operation.
    case invalidPath = 0xc2
    /// The path has more than `DocumentPath.bytesMax` bytes or `DocumentPath.depthMax` components.
    case pathTooLong = 0xc3
    /// The document is nested more than `DocumentPath.depthMax` deep.
    case documentTooDeep = 0xc4
    /// The value is not JSON, or not of a kind that the operation can insert; or a counter would
    /// leave the signed integers of 64 bits.
    case cannotInsert = 0xc5
    /// The document is not JSON.
    case documentNotJSON = 0xc6
    /// The existing integer has more than 64 bits with its sign.
    case numberOutOfRange = 0xc7
    /// The counter's delta is zero, or not a signed integer of 64 bits.
    case invalidDelta = 0xc8
    /// The path exists already, or the array has the value already.
    case exists = 0xc9
    /// With the value, the document would be nested more than `DocumentPath.depthMax` deep.
    case valueTooDeep = 0xca
}
