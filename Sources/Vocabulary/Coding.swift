public import Bytes

/// A node's number as LEB128; 0 is no node.
extension NodeNumber: Coded {
    package func write(to writer: inout FieldWriter) { value.write(to: &writer) }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self.init(try reader.readNumber())
        guard value > 0 else { throw reader.failure(.invalid) }
    }
}

extension Coder {
    /// A node's number as two bytes; 0 is valid.
    package mutating func fixed(
        _ node: inout NodeNumber,
        _ name: StaticString
    ) throws(CodingFailure) {
        var number = node.value
        try fixed(&number, name)
        node = NodeNumber(number)
    }
}

/// LEB128, less than the largest number of vBuckets of a bucket.
extension VBucketID: Coded {
    @usableFromInline
    package func write(to writer: inout FieldWriter) { number.write(to: &writer) }

    @usableFromInline
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self.init(try reader.readNumber())
        guard number < Limits.vBucketsDefault else { throw reader.failure(.invalid) }
    }
}

/// LEB128, at most `Seqno.last`.
extension Seqno: Coded {
    @inlinable
    package func write(to writer: inout FieldWriter) { value.write(to: &writer) }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self.init(try reader.readNumber())
        guard self <= .last else { throw reader.failure(.invalid) }
    }
}

/// Two bytes.
extension FeatureLevel: Coded {
    package func write(to writer: inout FieldWriter) { writer.output.append(bigEndian: number) }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self.init(try reader.readFixed())
    }
}

/// Eight bytes.
extension CAS: Coded {
    @inlinable
    package func write(to writer: inout FieldWriter) { writer.output.append(bigEndian: value) }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self.init(try reader.readFixed())
    }
}

/// Eight bytes.
extension VBucketUUID: Coded {
    @inlinable
    package func write(to writer: inout FieldWriter) { writer.output.append(bigEndian: value) }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self.init(try reader.readFixed())
    }
}

extension CopyPosition: CodedFields {
    package init() { self.init(branchFence: 0, covered: .zero) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&branchFence, "fence of the branch")
        try coder.field(&covered, "covered seqno")
    }
}
