internal import Bytes
internal import Vocabulary

/// The basic encodings of commands and states: numbers as LEB128, texts and lists preceded by their
/// count.
extension ByteWriter {
    func append(number: some UnsignedInteger) {
        LEB128.append(UInt64(number), to: self)
    }

    func append(counted text: String) {
        append(counted: Array(text.utf8))
    }

    func append(counted bytes: [UInt8]) {
        append(number: UInt(bytes.count))
        append(bytes)
    }

    func append(flag: Bool) {
        append(UInt8(flag ? 1 : 0))
    }

    func append(level: FeatureLevel) {
        append(bigEndian: level.number)
    }

    func append(node: NodeNumber) {
        append(number: node.value)
    }

    func append<Element>(
        list: some Collection<Element>,
        _ write: (Element, ByteWriter) -> Void
    ) {
        append(number: UInt(list.count))
        for element in list { write(element, self) }
    }

    func append(keys: NodeKeys) {
        append(keys.identity)
        append(keys.sealing)
    }

    func append(chain: NodeChain) {
        append(list: chain) { $1.append(node: $0) }
    }

    func append(nodes: [NodeNumber]) {
        append(list: nodes) { $1.append(node: $0) }
    }

    func append(position: CopyPosition) {
        append(number: position.branchFence)
        append(number: position.covered.value)
    }
}

/// Each function returns nil if the bytes end early or are not a valid value.
extension ByteReader {
    mutating func number<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
        leb128().flatMap { Integer(exactly: $0) }
    }

    mutating func counted() -> [UInt8]? {
        guard let count = number(Int.self) else { return nil }
        return bytes(count)?.bytes
    }

    mutating func text() -> String? {
        counted().map { String(decoding: $0, as: UTF8.self) }
    }

    mutating func byte() -> UInt8? {
        bigEndian(UInt8.self)
    }

    mutating func flag() -> Bool? {
        byte().flatMap { $0 < 2 ? $0 == 1 : nil }
    }

    mutating func node() -> NodeNumber? {
        number(UInt16.self).flatMap { $0 == 0 ? nil : NodeNumber($0) }
    }

    /// Every element needs at least one byte, so a damaged count cannot reserve more memory than
    /// the input has bytes.
    mutating func list<Element>(_ read: (inout ByteReader) -> Element?) -> [Element]? {
        guard let count = number(Int.self), count <= rest.count else { return nil }
        var elements: [Element] = []
        elements.reserveCapacity(count)
        for _ in 0..<count {
            guard let element = read(&self) else { return nil }
            elements.append(element)
        }
        return elements
    }

    mutating func level() -> FeatureLevel? {
        bigEndian(UInt16.self).map { FeatureLevel($0) }
    }

    mutating func keys() -> NodeKeys? {
        guard let identity = bytes(NodeKeys.keyByteCount)?.bytes,
            let sealing = bytes(NodeKeys.keyByteCount)?.bytes
        else { return nil }
        return NodeKeys(identity: identity, sealing: sealing)
    }

    mutating func chain() -> NodeChain? {
        list { $0.node() }.flatMap { NodeChain($0) }
    }

    mutating func nodes() -> [NodeNumber]? {
        list { $0.node() }
    }

    mutating func position() -> CopyPosition? {
        guard let fence = leb128(), let covered = leb128() else { return nil }
        return CopyPosition(branchFence: fence, covered: Seqno(covered))
    }
}
