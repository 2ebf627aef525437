import Bytes
import Testing

@Suite struct SizeClassTests {
    @Test func sizeClassIsTheSmallestThatHoldsTheSize() {
        for bytes in 1...SizeClass.bytesMax {
            let index = SizeClass.index(of: bytes)
            #expect(index >= 0 && index < SizeClass.count)
            #expect(SizeClass.bytes(of: index) >= bytes)
            if index > 0 { #expect(SizeClass.bytes(of: index - 1) < bytes) }
        }
    }

    @Test func blockWastesAtMostAnEighth() {
        for bytes in 1...SizeClass.bytesMax {
            let waste = SizeClass.footprint(of: bytes) - bytes
            #expect(waste < max(8, bytes / 8 + 1), "\(bytes)")
        }
        #expect(SizeClass.footprint(of: 135) == 136)
        #expect(SizeClass.footprint(of: 257) == 288)
    }

    @Test func blocksOfOneSizeClassAreInterchangeable() {
        #if SYSTEM_ALLOCATOR
            #expect(!SizeClass.areInterchangeable(129, 136))
        #else
            #expect(SizeClass.areInterchangeable(129, 136))
        #endif
        #expect(!SizeClass.areInterchangeable(128, 129))
        #expect(!SizeClass.areInterchangeable(SizeClass.bytesMax, SizeClass.bytesMax + 1))
        #expect(!SizeClass.areInterchangeable(40_000, 40_001))
        #expect(SizeClass.areInterchangeable(40_000, 40_000))
    }
}
