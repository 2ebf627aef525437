/// The fuzzer's bytes, as a source of choices: zeros follow after the last byte.
struct ByteSource {
    var bytes: ArraySlice<UInt8>

    var isEmpty: Bool { bytes.isEmpty }

    mutating func byte() -> UInt8 { bytes.popFirst() ?? 0 }

    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { bytes = bytes.dropFirst(count) }
        let taken = Array(bytes.prefix(count))
        return taken + [UInt8](repeating: 0, count: count - taken.count)
    }

    /// The element that the next byte chooses.
    mutating func choice<Element>(_ elements: [Element]) -> Element {
        elements[Int(byte()) % elements.count]
    }
}
