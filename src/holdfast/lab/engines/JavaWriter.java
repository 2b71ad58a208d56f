import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producers for the lab, told what to do line by line: a word, and what it needs, in base64.
 * Each line is answered by one that begins with "lab", when brokers have acknowledged it; loggers may say what they like.
 */
public class JavaWriter {
    private static final String TOPIC = "lab";
    private static final int PATIENCE_MS = 60_000;
    private static final int TRANSACTION_MS_MAX = 900_000;

    private final String bootstrap;
    private final KafkaProducer<byte[], byte[]> plain;
    private final Map<String, KafkaProducer<byte[], byte[]>> transactional = new HashMap<>();

    JavaWriter(String bootstrap) {
        this.bootstrap = bootstrap;
        // Without a producer id, so that no header of a plain record is kept for its producer's sake.
        this.plain = producer(Map.of("acks", "1", "enable.idempotence", "false"));
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        JavaWriter writer = new JavaWriter(arguments[0]);
        answers.println("lab ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                answers.println("lab ok " + writer.obey(line.split(" ")));
            } catch (Exception failure) {
                String why = String.valueOf(failure.getMessage()).replace('\n', ' ');
                answers.println("lab error " + failure.getClass().getSimpleName() + ": " + why);
            }
        }
        // The lab has gone: an open transaction is left to its fate, as by a process that was killed.
        Runtime.getRuntime().halt(0);
    }

    private long obey(String[] words) throws Exception {
        switch (words[0]) {
            case "produce":
                return send(plain, words[1], words[2]);
            case "begin":
                transactional.computeIfAbsent(words[1], this::transactionalProducer).beginTransaction();
                return 0;
            case "send":
                return send(transactional.get(words[1]), words[2], words[3]);
            case "commit":
                transactional.get(words[1]).commitTransaction();
                return 0;
            case "abort":
                transactional.get(words[1]).abortTransaction();
                return 0;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private long send(KafkaProducer<byte[], byte[]> producer, String key, String value) throws Exception {
        return producer.send(new ProducerRecord<>(TOPIC, 0, bytes(key), bytes(value))).get().offset();
    }

    private KafkaProducer<byte[], byte[]> transactionalProducer(String name) {
        KafkaProducer<byte[], byte[]> producer = producer(
            Map.of("transactional.id", name, "transaction.timeout.ms", TRANSACTION_MS_MAX));
        producer.initTransactions();
        return producer;
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", bootstrap);
        all.put("max.block.ms", PATIENCE_MS);
        all.put("request.timeout.ms", PATIENCE_MS / 4);
        all.put("delivery.timeout.ms", PATIENCE_MS);
        all.put("linger.ms", 0);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static byte[] bytes(String field) {
        return field.equals("-") ? null : Base64.getDecoder().decode(field);
    }
}
