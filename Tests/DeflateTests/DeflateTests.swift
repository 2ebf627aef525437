import Bytes
import Deflate
import Testing

@Suite struct DeflateTests {
    @Test func streamOfManyPartsIsInflatedToTheSameBytes() throws {
        let output = ByteWriter()
        let deflater = Deflater(.gzip)
        deflater.finish(to: output)
        #expect(output.count > 0)
    }
}
