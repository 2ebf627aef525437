/// The format of a value: the protocol's datatype byte.
@usableFromInline
package struct Datatype: OptionSet, Hashable, Sendable {
    @usableFromInline package let rawValue: UInt8

    @inlinable
    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    @inlinable package static var json: Datatype { Datatype(rawValue: 1) }
    @inlinable package static var snappy: Datatype { Datatype(rawValue: 2) }
    @inlinable package static var xattr: Datatype { Datatype(rawValue: 4) }

    /// Whether the value is JSON or any bytes: neither compressed nor with attributes.
    @inlinable package var isPlain: Bool { rawValue <= 1 }
}
