/// Why one path of a sub-document command failed: its status in the answer.
///
/// - The SDKs abort on a status that is not in their list, so no other number may be a path's status.
package enum PathFailure: UInt16, Error, Sendable, CaseIterable {
    /// The command or its arguments are invalid for any document.
    case invalidArguments = 0x04
    /// The document has no value at the path.
    case notFound = 0xc0
    /// A component of the path does not fit the kind of the value that it is applied to: a key to an
    /// array, or anything to a scalar.
    case mismatch = 0xc1
    /// The text is not a path, or its last component is invalid for the operation.
    case invalidPath = 0xc2
    /// The path is longer than `DocumentPath.bytesMax`.
    case pathTooLong = 0xc3
    /// The path has more than `DocumentPath.depthMax` components, or the document is nested deeper.
    case pathTooDeep = 0xc4
    /// The value is not JSON, or not of a kind that the operation can insert; or a counter overflows.
    case cannotInsert = 0xc5
    /// The document is not JSON.
    case documentNotJSON = 0xc6
    /// The existing number does not fit into a signed integer of 64 bits.
    case numberOutOfRange = 0xc7
    /// The counter's delta is zero, or not a signed integer of 64 bits.
    case invalidDelta = 0xc8
    /// The path exists already.
    case exists = 0xc9
    /// With the value, the document would be nested too deeply.
    case valueTooDeep = 0xca
}
