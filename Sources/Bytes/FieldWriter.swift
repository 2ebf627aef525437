/// Appends fields to a buffer.
@usableFromInline
package struct FieldWriter: Coder {
    @usableFromInline package let output: ByteWriter

    @inlinable
    package init(_ output: ByteWriter) {
        self.output = output
    }

    /// Appends the kind of what follows, and its payload.
    @inlinable
    package mutating func kind<each Part: Coded>(_ number: UInt8, _ payload: repeat each Part) {
        output.append(number)
        repeat (each payload).write(to: &self)
    }

    @inlinable
    package mutating func write(number: some BinaryInteger) { append(leb128: UInt64(number)) }

    @usableFromInline
    func append(leb128 number: UInt64) { LEB128.append(number, to: output) }

    /// Appends the count of the bytes that `body` appends, then they.
    @usableFromInline
    mutating func writePart(_ body: (inout FieldWriter) -> Void) {
        var part = FieldWriter(ByteWriter())
        body(&part)
        write(number: part.output.count)
        output.append(part.output.view)
    }

    @inlinable
    mutating func write(fieldsOf value: some CodedFields) {
        var value = value
        do {
            try value.code(&self)
        } catch {
            preconditionFailure("a writer refuses no value: \(error)")
        }
    }

    // MARK: Coder

    @inlinable
    package mutating func field<Value: Coded>(_ value: inout Value, _ name: StaticString) {
        value.write(to: &self)
    }

    @inlinable
    package mutating func fixed<Integer: FixedWidthInteger>(
        _ value: inout Integer,
        _ name: StaticString
    ) {
        output.append(bigEndian: value)
    }

    @inlinable
    package mutating func bytes(_ value: inout [UInt8], count: Int, _ name: StaticString) {
        precondition(value.count == count, "a field has as many bytes as its format")
        output.append(value)
    }

    @inlinable
    package mutating func choice<Value: RawRepresentable>(
        _ value: inout Value,
        _ name: StaticString
    ) where Value.RawValue: Coded {
        value.rawValue.write(to: &self)
    }

    @inlinable
    package mutating func list<Element>(
        _ list: inout [Element],
        _ name: StaticString,
        blank: @autoclosure () -> Element,
        body: (inout FieldWriter, inout Element) throws(CodingFailure) -> Void
    ) throws(CodingFailure) {
        write(number: list.count)
        for index in list.indices {
            var element = list[index]
            try body(&self, &element)
        }
    }

    @inlinable
    package mutating func require(_ condition: @autoclosure () -> Bool, _ name: StaticString) {}
}
