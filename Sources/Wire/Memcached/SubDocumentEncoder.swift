package import Bytes

/// Encodes the values of answers to sub-document requests.
package enum SubDocumentEncoder {
    /// Appends the result of one path of a lookup: status 2, length 4, value.
    package static func appendLookup(_ status: Status, _ value: ByteView, to writer: ByteWriter) {
        writer.append(bigEndian: status.rawValue)
        writer.append(bigEndian: UInt32(value.count))
        writer.append(value)
    }

    /// The bytes in front of the value in the result of a lookup's path.
    package static let lookupHeaderBytes = 6

    /// Appends the result of one path of a mutation that has a value: index 1, status 2, length 4,
    /// value.
    ///
    /// Paths without a value have no result.
    package static func appendMutation(index: Int, _ value: ByteView, to writer: ByteWriter) {
        writer.append(UInt8(index))
        writer.append(bigEndian: Status.success.rawValue)
        writer.append(bigEndian: UInt32(value.count))
        writer.append(value)
    }

    /// Appends the path that failed: index 1, status 2.
    ///
    /// It is the only entry of a failed mutation.
    package static func appendFailure(index: Int, _ status: Status, to writer: ByteWriter) {
        writer.append(UInt8(index))
        writer.append(bigEndian: status.rawValue)
    }
}
