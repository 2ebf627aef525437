internal import Bytes

/// Adds to an integer in a document.
struct CounterEdit {
    let path: DocumentPath
    let makesParents: Bool
    let document: ByteView

    func apply(delta text: ByteView, to writer: ByteWriter) -> Result<EditResult, PathFailure> {
        guard !text.isEmpty else { return .failure(.invalidArguments) }
        guard case .number(let delta) = Integer(text), delta != 0 else {
            return .failure(.invalidDelta)
        }
        var walk = PathWalk(document)
        switch walk.find(path) {
        case .found: return add(delta, &walk, to: writer)
        case .missing:
            return write(delta, to: writer) { number in
                PathEdit(
                    operation: .dictAdd,
                    path: path,
                    value: number,
                    makesParents: makesParents,
                    document: document,
                    output: writer
                ).addMember(walk)
            }
        case .failed(let failure): return .failure(failure)
        }
    }

    private func add(
        _ delta: Int64,
        _ walk: inout PathWalk,
        to writer: ByteWriter
    ) -> Result<EditResult, PathFailure> {
        let start = walk.scanner.offset
        guard let old = walk.consumeValue() else { return .failure(walk.scanner.failure) }
        switch Integer(old) {
        case .none: return .failure(.mismatch)
        case .tooLarge: return .failure(.numberOutOfRange)
        case .number(let number):
            let (sum, overflows) = number.addingReportingOverflow(delta)
            guard !overflows else { return .failure(.cannotInsert) }
            let range = start..<start + old.count
            return write(sum, to: writer) { number in
                let editor = EditWriter(document, writer, additional: number.count)
                return .success(editor.replace(range, by: number))
            }
        }
    }

    /// Calls `body` with the text of `number`.
    private func write(
        _ number: Int64,
        to writer: ByteWriter,
        _ body: (ByteView) -> Result<Range<Int>, PathFailure>
    ) -> Result<EditResult, PathFailure> {
        var text = DecimalText(number)
        return text.withView(body).map { EditResult(number: number, written: $0) }
    }

    /// The value of an integer's text.
    private enum Integer {
        case number(Int64)
        /// An integer of more than 64 bits with its sign.
        case tooLarge
        /// No integer, or one with leading zeros.
        case none

        init(_ text: ByteView) {
            let isNegative = text[0] == UInt8(ascii: "-")
            let first = isNegative ? 1 : 0
            guard text.count > first, text[first] != UInt8(ascii: "0") || text.count == first + 1
            else {
                self = .none
                return
            }
            var number: Int64 = 0
            var overflows = false
            for offset in first..<text.count {
                let digit = text[offset] &- UInt8(ascii: "0")
                guard digit < 10 else {
                    self = .none
                    return
                }
                // Downwards, because the smallest integer has no positive counterpart.
                let (product, isTooLarge) = number.multipliedReportingOverflow(by: 10)
                let (sum, hasNoRoom) = product.subtractingReportingOverflow(Int64(digit))
                overflows = overflows || isTooLarge || hasNoRoom
                number = sum
            }
            if !isNegative {
                let (positive, isTooLarge) = (0 as Int64).subtractingReportingOverflow(number)
                overflows = overflows || isTooLarge
                number = positive
            }
            self = overflows ? .tooLarge : .number(number)
        }
    }
}

/// The decimal digits of an integer of 64 bits, without allocation.
private struct DecimalText {
    private var bytes = InlineArray<20, UInt8>(repeating: 0)
    private var first = 20

    init(_ number: Int64) {
        var rest = number.magnitude
        repeat {
            first -= 1
            bytes[first] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        } while rest > 0
        if number < 0 {
            first -= 1
            bytes[first] = UInt8(ascii: "-")
        }
    }

    mutating func withView<Value>(_ body: (ByteView) -> Value) -> Value {
        let first = first
        return withUnsafeBytes(of: &bytes) { buffer in
            body(ByteView(UnsafeRawBufferPointer(rebasing: buffer[first...])))
        }
    }
}
