/// What a value is made of, as the protocol's datatype byte says it.
package struct Datatype: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    @inlinable
    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    package static let json = Datatype(rawValue: 1)
    package static let snappy = Datatype(rawValue: 2)
    package static let xattr = Datatype(rawValue: 4)
}
